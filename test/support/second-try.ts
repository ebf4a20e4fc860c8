/**
 * How often a test of whole processes or of pages is tried again: once, and only in the gate. Such tests have bounds in seconds of
 * wall time, which a machine shared with others breaks without a fault of ours. What passed only at the second try is named at the
 * end of `.ci/run`, so that it is looked at. Never for tests of parts, laws or simulated worlds: there chance comes from a seed,
 * and a second try would hide a finding.
 */
export const SECOND_TRY = process.env.CI === undefined ? 0 : 1;
