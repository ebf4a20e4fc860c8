import { expect, test } from 'vitest';
import { welcome } from '../../src/cli/commands/dev.ts';
import { readConfig } from '../../src/config.ts';

const URL = 'http://127.0.0.1:8082';

test('what a start proposes to try carries a token where one is needed', () => {
  const open = welcome(URL, readConfig({}), ['examples/hello']);
  expect(open).toContain(`curl -s ${URL}/api/execute -H 'content-type: application/json' \\\n    -d '{"path"`);
  expect(open).not.toContain('SVC_TOKEN');
  const enforced = welcome(URL, readConfig({ SVC_AUTH_MODE: 'enforce' }), ['examples/hello']);
  expect(enforced).toContain('\n    -H "authorization: Bearer $SVC_TOKEN" \\\n    -d \'{"path"');
  expect(enforced).toContain('commands send that of SVC_TOKEN');
});
