/**
 * How often a test is tried again: once, and only in the gate. Many have sockets, a database or bounds in seconds of wall time,
 * and a machine shared with others breaks such a bound without a fault of ours. What passed only at the second try is named at
 * the end of `.ci/run`, and is looked at: it may have found something that happens seldom. Where chance comes from a seed a second
 * try says the same as the first. Never for simulated worlds, which have no other chance.
 */
export const SECOND_TRY = process.env.CI === undefined ? 0 : 1;
