import type { Json, JsonObject } from "../kit/json";

export type { Json, JsonObject };

/** The shapes of the API that the studio reads. A test compares their fields with the OpenAPI document. */


export type RunStatus = "queued" | "running" | "interrupted" | "done" | "error" | "cancelled";
export type NodeStatus = "pending" | "running" | "waiting" | "done" | "error" | "skipped" | "cancelled";
export const RUN_STATUSES: RunStatus[] = ["queued", "running", "interrupted", "done", "error", "cancelled"];

export interface ErrorBody {
  code: string;
  status: string;
  message: string;
  requestId?: string;
  info?: JsonObject;
}

export interface Target {
  type: string;
  id: number | null;
}

export interface Actor {
  userId: string | null;
  kind: string;
}

export interface Interrupt {
  interruptId: string;
  runId: string;
  type: "approval" | "connect";
  nodeId?: string;
  path?: string[];
  message?: string | null;
  expiresAt?: string | null;
  requiredApprovals?: number;
  approvals?: number;
  formSchema?: JsonObject;
  toolId?: string;
  arguments?: Json;
  digest?: string;
  provider?: string;
  connectionId?: string;
  /** Where the caller can authorize the connection; an event does not have it. */
  connectUrl?: string;
  toolCallId?: string;
  toolName?: string;
}

export interface Decider {
  userId: string;
  email?: string | null;
  name?: string | null;
  at?: string;
  decision?: string;
  onBehalfOf?: string | null;
}

export interface InboxItem extends Interrupt {
  target?: Target;
  threadId?: string | null;
  createdAt?: string;
  workflowName?: string | null;
  requestedBy?: Actor | { userId: string | null; email?: string | null; name?: string | null } | null;
  decidedBy?: Decider[];
  status?: string;
  decision?: string;
  decidedAt?: string | null;
  /** False for an open one that the caller can see and not decide now. */
  canDecide?: boolean;
}

export interface RunRecord {
  runId: string;
  status: RunStatus;
  target: Target;
  threadId: string | null;
  parentRunId: string | null;
  resumedBy: string | null;
  retriedBy?: string | null;
  forkedFrom?: string | null;
  output: Json;
  error: ErrorBody | null;
  interrupts: Interrupt[];
  usage: JsonObject | null;
  createdAt: string;
  updatedAt: string;
  finishedAt: string | null;
  startedBy?: Actor | null;
  executionStartedBy?: Actor | null;
  origin?: string;
  version?: string;
  variationId?: string | null;
}

/** Why a run cannot be retried with another version: `info.differences` of a 409. */
export interface Difference {
  nodeId: string;
  what: "removed" | "type" | "edge";
  message: string;
}

export interface RunEvent {
  kind: string;
  runId: string;
  seq: number;
  at: string;
  nodeId?: string;
  path?: string[];
  items?: (number | null)[];
  [field: string]: unknown;
}

export interface GraphNode {
  id: string;
  type: string;
  data?: JsonObject;
  position?: { x: number; y: number } | null;
}

export interface GraphEdge {
  id: string;
  source: string;
  target: string;
  sourceHandle?: string | null;
}

export interface Structure {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface Visit {
  visit: number;
  attempts?: number;
  input?: Json;
  output?: Json;
  error?: ErrorBody | null;
  startedAt?: string | null;
  finishedAt?: string | null;
  usage?: JsonObject | null;
}

export interface ItemState {
  index: number;
  status: NodeStatus;
  attempts?: number;
  output?: Json;
  error?: string | null;
}

export interface RunGraph {
  nodes: (GraphNode & { status: NodeStatus; visits: Visit[]; items: ItemState[] | null })[];
  edges: { id: string; taken: boolean | null; source?: string; target?: string; sourceHandle?: string | null }[];
  path?: string[];
}

export interface Workflow {
  id: number;
  name: string;
  description: string | null;
  status: string;
  isEnabled?: boolean;
  hasUnpublishedChanges?: boolean;
  updatedAt?: string;
  orgUuid?: string;
  accessConfig?: AccessConfig;
  activeVariationId?: string | null;
  canManage?: boolean;
  canUse?: boolean;
  manageDenial?: string | null;
  variation?: {
    id?: string;
    workflowStructure?: Structure | null;
    trigger?: (JsonObject & { trigger_type: string; schedule?: JsonObject }) | null;
  } | null;
}

export interface AccessConfig {
  visibility: "shared" | "private";
  groupPermissions: Record<string, { use: boolean; manage: boolean }>;
  sharedWith: { email: string; userId?: string | null }[];
  ownerUserId?: string | null;
  ownerEmail?: string | null;
}

/** What deploying a draft would mean. */
export interface Impact {
  diff: GraphDiff;
  waiting: { variationId: string; count: number; fits: boolean; differences: Difference[] }[];
  schedule: Record<"before" | "after", { isEnabled: boolean; nextRuns: { at: string }[] }>;
  policies: { policyId: string; name: string; severity: string; status: "broken" | "kept" | "unknown"; counterExample: string[] | null }[];
  evaluations: { caseId: string; name: string | null; required: boolean; state: "failed" | "never_ran" | "passed" | "running" }[];
  cost: { runs: number; perRun: { inputTokens: number | null; outputTokens: number | null; cost: number | null } };
}

/** What one node gave on values that were made up, and what was not performed. */
export interface NodeTrial {
  output: Json;
  error: ErrorBody | null;
  handle: string | null;
  wouldSend: JsonObject[];
}

/** The value of an expression or a template, or why it has none. */
export interface Evaluated {
  value?: Json;
  error?: { message: string; line: number | null; column: number | null };
}

/** A node of a simulated run, and how it ended: `done`, `failed`, `approved`, `denied`, `expired`, or a branch. */
export interface Step {
  nodeId: string;
  outcome: string;
}

/** One end that runs can have, with one way there. */
export interface SimulatedPath {
  end: "done" | "error" | "endless";
  steps: Step[];
  failed: string | null;
}

/** Whether a rule holds for all runs; a broken one has a run that breaks it. */
export interface Verdict {
  rule: string;
  status: "holds" | "broken" | "unknown";
  counterExample: { steps: Step[]; what: string; path: string[] } | null;
}

/** The ends that runs of a graph can have. */
export interface Simulation {
  complete: boolean;
  paths: SimulatedPath[];
  neverReached: string[];
  deadEnds: Step[];
  rules: Verdict[];
}

/** A change of the draft that a model proposes. */
export interface Proposal {
  explanation: string;
  workflowStructure: Structure;
  diff: GraphDiff;
  runIds: string[];
  usage: { inputTokens?: number; outputTokens?: number };
}

/** A version that was deployed. */
export interface Variation {
  id: string;
  deployedAt: string;
  deployedBy?: string | null;
  isActive: boolean;
}

export interface Caller {
  orgUuid: string;
  userId: string;
  email: string | null;
  scopes: string[];
  role: string;
}

export interface Decision {
  interruptId: string;
  decision: "approve" | "deny" | "connected" | "cancelled";
  data?: Json;
}

export interface GraphLimits {
  nodes: number;
  edges: number;
}

export interface NodeType {
  type: string;
  title: string;
  description: string;
  dataSchema: JsonObject;
  handles: { handle: string | null; description: string }[];
  /** `branches`: the data names further handles. */
  handlesFrom: string | null;
}

export interface Tool {
  id: string;
  name: string;
  description: string;
  parameters: JsonObject;
  outputSchema?: JsonObject | null;
  group?: string | null;
}

export interface Skill {
  id: number;
  name: string;
}

export interface Issue {
  path: string;
  message: string;
  rule: string;
  severity?: "error" | "warning";
}

export interface GraphDiff {
  nodes: { added: string[]; removed: string[]; changed: { id: string; paths: string[] }[] };
  edges: { added: string[]; removed: string[]; changed: { id: string; paths: string[] }[] };
  fields: string[];
}

/** Stored content of an attachment. */
export interface Upload {
  uploadId: string;
  mimeType: string;
  sizeBytes: number;
}
