/** The tools of the whole service: its own first, then every exposed playbook. */
import type { ServedTool, Toolbox } from './tool.ts';

export interface OwnTool extends ServedTool {
  readonly needsOperator: boolean;
}

/** Tools a caller may not use are neither listed nor found. */
export function joinTools(own: readonly OwnTool[], playbooks: Toolbox): Toolbox {
  const byName = new Map(own.map((tool) => [tool.name, tool]));
  const mayUse = (tool: OwnTool, isOperator: boolean) => isOperator || !tool.needsOperator;
  return {
    async list(caller, cursor) {
      const page = await playbooks.list(caller, cursor);
      if (cursor !== null) return page;
      return { ...page, tools: [...own.filter((tool) => mayUse(tool, caller.isOperator)), ...page.tools] };
    },
    async find(name, caller) {
      const tool = byName.get(name);
      if (tool !== undefined) return mayUse(tool, caller.isOperator) ? tool : null;
      return playbooks.find(name, caller);
    },
  };
}
