/** What a new playbook begins as: small, and it runs. */
export const STARTER = `apiVersion: callboard/v2
kind: Playbook
metadata:
  name: first
  path: my/first
  description: Says hello.

# Inputs and their defaults.
workload:
  who: world

workflow:
  # A run begins at the step named start.
  - step: start
    tool:
      kind: python
      input:
        who: "{{ workload.who }}"
      code: |
        result = {"text": f"Hello, {who}!"}
    next:
      arcs:
        - step: end

  - step: end
    tool:
      kind: noop
      result:
        greeting: "{{ start.text }}"
`;
