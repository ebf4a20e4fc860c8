/**
 * Kind `artifact` (language 11.12): reads a stored result by its reference, or stores one. An externalised value that
 * was passed as an input has been resolved on the way in, so it is the payload already.
 */
import { isMap, type JsonMap } from '../../machines/json.ts';
import { failure } from './errors.ts';
import { FieldProblem, fieldOf, textOf } from './fields.ts';
import type { Tool, ToolCall, ToolOutcome } from './tool.ts';

const scheme = 'callboard://';

/** An artifact tool. */
export function createArtifact(): Tool {
  return {
    kind: 'artifact',
    async run(call) {
      const action = (textOf(call.fields, 'action') ?? 'get').trim().toLowerCase();
      if (action === 'get' || action === '') return get(call);
      if (action === 'put') return put(call);
      throw new FieldProblem(`field 'action' must be get or put, not '${action.slice(0, 40)}'`);
    },
  };
}

async function get({ input, host }: ToolCall): Promise<ToolOutcome> {
  const given = fieldOf(input, 'result_ref', 'ref');
  if (given === undefined || given === '') {
    return failure('missing_reference', 'MISSING_REFERENCE', 'artifact get requires result_ref');
  }
  const ref = isMap(given) ? given['_ref'] : given;
  if (ref === undefined) return { ok: true, data: given };
  if (typeof ref === 'string' && ref.startsWith(scheme)) return { ok: true, data: await host.resolveResult(ref) };
  if (typeof given === 'string') {
    return failure('missing_reference', 'MISSING_REFERENCE', `'${given.slice(0, 100)}' is no result reference`);
  }
  return { ok: true, data: given };
}

async function put({ input, task, host }: ToolCall): Promise<ToolOutcome> {
  const data = Object.hasOwn(input, 'data') ? input['data'] : undefined;
  if (data === undefined) throw new FieldProblem(`artifact put requires 'input.data'`);
  const stored = await host.putResult(textOf(input, 'name') ?? task, data);
  const answer: JsonMap = { ...stored };
  return { ok: true, data: answer };
}
