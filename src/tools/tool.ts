/**
 * What a tool is: one kind of work, run by a worker for one try of one task. A tool gets rendered values and plain
 * credentials, and answers with an outcome; it never throws for a failure of the work (a throw is a bug and becomes
 * kind `unknown`). It must stop when `signal` aborts and must leave nothing running behind it.
 */
import type { Json, JsonMap } from '../../machines/json.ts';

export interface ToolCall {
  readonly kind: string;
  /** The kind's own fields (language 11), rendered: text fields are strings, others native values. */
  readonly fields: JsonMap;
  /** The rendered inputs of the task. */
  readonly input: JsonMap;
  /** The template context for kinds whose code asks for it (`context` of python and javascript); built only when called. */
  readonly context: () => Promise<JsonMap>;
  /** The resolved credential, or null. */
  readonly auth: ResolvedAuth | null;
  /** Milliseconds for this try, from `timeout` or the kind's default; null when neither applies. */
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal;
  readonly executionId: number;
  readonly commandId: number;
  readonly step: string;
  readonly task: string;
  readonly serverUrl: string;
  readonly host: ToolHost;
  /** Set where the run belongs to a trace (api 7.3). */
  readonly trace?: ToolTrace | null;
}

/** W3C trace context as headers. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** The place of this try in a trace, for requests that carry it on. */
export interface ToolTrace {
  /** `headers` go with the request; `end` is called once, with its status or null where there was no answer. */
  request(to: { readonly method: string; readonly host: string }): {
    readonly headers: TraceHeaders;
    end(status: number | null): void;
  };
}

/** What a tool may ask of the worker that runs it. Every method throws ToolRefusal with the failure of the try. */
export interface ToolHost {
  /** Resolves a credential besides the task's own `auth`: a side of a transfer, an attached database. */
  credential(auth: Json): Promise<ResolvedAuth | null>;
  /** From now on this text is `***` in whatever leaves the worker with this command. */
  conceal(secret: string): void;
  /** The payload behind a result reference. */
  resolveResult(ref: string): Promise<Json>;
  putResult(name: string, data: Json): Promise<StoredResult>;
  /** The document of the newest version at a catalog path; null where there is none. */
  catalogDocument(path: string): Promise<JsonMap | null>;
}

export interface StoredResult {
  readonly ref: string;
  readonly store: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** A credential, decrypted for one try. `name` is null for inline maps. */
export interface ResolvedAuth {
  readonly name: string | null;
  readonly type: string;
  readonly data: JsonMap;
  /** Hosts the credential may be sent to (`meta.hosts`, api 8.4): names, `*.suffix`, `host:port`; absent means any. */
  readonly hosts?: readonly string[];
}

export type ToolOutcome = ToolSuccess | ToolFailure;

interface OutcomeExtras {
  /** `output.http`, `output.pg`, `output.py`, `output.js` (language 7.3). */
  readonly http?: JsonMap;
  readonly pg?: JsonMap;
  readonly py?: JsonMap;
  readonly js?: JsonMap;
  readonly log?: { readonly stdout: string; readonly stderr: string };
  readonly warnings?: readonly string[];
}
export interface ToolSuccess extends OutcomeExtras {
  readonly ok: true;
  readonly data: Json;
}
export interface ToolFailure extends OutcomeExtras {
  readonly ok: false;
  readonly error: ToolError;
  /** Data if there is any (an HTTP body, a shell's output), else null. */
  readonly data: Json;
}

/** Kinds of language 7.4. */
export interface ToolError {
  readonly kind: string;
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly status_code?: number | null;
  readonly details?: Json;
}

export interface Tool {
  readonly kind: string;
  run(call: ToolCall): Promise<ToolOutcome>;
  /** Ends pools and child processes. Idempotent. */
  close?(): Promise<void>;
}
