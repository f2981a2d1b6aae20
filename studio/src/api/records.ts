import type { Client, Tagged } from "./client";
import { Names, peopleOf } from "./people";
import type { JsonObject, Tool, Workflow } from "./types";

/** The shapes of an organization's records that the studio reads. A test compares their fields with the OpenAPI document. */

export interface Connection {
  id: string;
  name: string;
  provider: string;
  kind: "api_key" | "oauth2" | "mcp";
  config: JsonObject;
  ownership: string;
  status: string;
  statusReason: string | null;
  lastCheckedAt: string | null;
}

export interface ToolServer {
  connectionId: string;
  name: string;
  problem: string | null;
  leftOut: JsonObject;
}

export interface CatalogTool extends Tool {
  provider: string | null;
  builtIn: boolean;
  connectionId: string | null;
  idempotent: boolean;
}

export interface Group {
  id: string;
  name: string;
}

/** `to` decides the approvals of `from`, before `until` and in these workflows; null: without end, and in all. */
export interface Delegation {
  id: string;
  from: string;
  to: string;
  until: string | null;
  workflowIds: number[] | null;
}

export interface Erasure {
  status: "running" | "done";
  progress: { done: number; total: number };
}

export interface Token {
  id: string;
  name: string;
  userId: string;
  scopes: string[];
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
}

export interface Hook {
  id: string;
  url: string;
  events: string[];
  filter: { workflowId: number | null };
  isEnabled: boolean;
  createdBy: string;
}

export interface Attempt {
  at: string;
  status: number | null;
  error: string | null;
  ms: number;
}

export interface Delivery {
  id: string;
  event: string;
  webhookId: string;
  status: string;
  attempts: Attempt[];
  createdAt: string;
  nextAttemptAt: string | null;
}

export interface Policy {
  id: string;
  name: string;
  severity: string;
  when: JsonObject;
  require: JsonObject;
}

export interface AuditEntry {
  at: string;
  userId: string | null;
  action: string;
  resource: { type: string; id: string };
  details: JsonObject;
  requestId: string | null;
  remoteAddress: string | null;
  userName: string | null;
  resourceName: string | null;
}

export interface UsageTotals {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  durationMs: number;
  cost: number | null;
}

export interface UsageGroup extends UsageTotals {
  key: string | null;
}

export interface UsageReport {
  from: string;
  to: string;
  groupBy: string;
  totals: UsageTotals;
  usage: UsageGroup[];
}

export interface NextRun {
  at: string;
  local: string;
  note: string | null;
}

export interface MissedSlot {
  at: string;
  reason: string;
}

export interface ScheduleState {
  isEnabled: boolean;
  nextAt: string | null;
  paused: { reason: string; message: string } | null;
  overlap: string;
  lastRunId: string | null;
  missed: MissedSlot[];
}

/** An active workflow that has a schedule: its state, and its next times. */
export interface Scheduled extends ScheduleState {
  id: number;
  name: string;
  canManage: boolean;
  nextRuns: NextRun[];
}

/** The lists of records, and the key of the rows in their pages. */
const LISTS = {
  connections: ["/api/v1/connections", "connections"],
  members: ["/api/v1/members", "members"],
  groups: ["/api/v1/groups", "groups"],
  delegations: ["/api/v1/delegations", "delegations"],
  tokens: ["/api/v1/tokens", "tokens"],
  hooks: ["/api/v1/hooks", "hooks"],
  policies: ["/api/v1/policies", "policies"],
  audit: ["/api/v1/audit", "audit"],
} as const;

export type ListName = keyof typeof LISTS;

const one = (id: string | number) => encodeURIComponent(String(id));

/** The calls about an organization's records. Changes carry the tag of what was read (`If-Match`). */
export class Records {
  readonly names;
  readonly people;

  constructor(private readonly client: Client) {
    this.names = new Names(client);
    this.people = peopleOf(client);
  }

  async page<T>(list: ListName, filters: Record<string, string>, pageToken: string | null, pageSize = 50): Promise<{ rows: T[]; next: string | null }> {
    const [path, key] = LISTS[list];
    const found = await this.client.get<Record<string, unknown>>(path, { ...filters, pageSize, pageToken });
    return { rows: found[key] as T[], next: (found.nextPageToken as string | null) ?? null };
  }

  /** All of a list, for choices and names: at most `MOST_CHOICES`. */
  async all<T>(list: ListName): Promise<T[]> {
    const rows: T[] = [];
    for (let next: string | null = null; rows.length < MOST_CHOICES;) {
      const page: { rows: T[]; next: string | null } = await this.page<T>(list, {}, next, 100);
      rows.push(...page.rows);
      if ((next = page.next) === null) break;
    }
    return rows;
  }

  read<T>(list: ListName, id: string): Promise<Tagged<T>> {
    return this.client.tagged("GET", `${LISTS[list][0]}/${one(id)}`);
  }

  /** `key` makes a repeated create harmless (`Idempotency-Key`). */
  create<T>(list: ListName, body: JsonObject, key: string): Promise<Tagged<T>> {
    return this.client.tagged("POST", LISTS[list][0], body, { headers: { "Idempotency-Key": key } });
  }

  /** Errors: 409 `stale` if it has changed since `etag`. */
  change<T>(list: ListName, id: string, body: JsonObject, etag: string | null): Promise<Tagged<T>> {
    return this.client.tagged("PATCH", `${LISTS[list][0]}/${one(id)}`, body, { headers: matching(etag) });
  }

  remove<T>(list: ListName, id: string, etag: string | null): Promise<Tagged<T>> {
    return this.client.tagged("DELETE", `${LISTS[list][0]}/${one(id)}`, undefined, { headers: matching(etag) });
  }

  /** The archive with the data of a member. */
  async exportOf(userId: string): Promise<Blob> {
    const response = await this.client.open(`/api/v1/members/${one(userId)}/export`, { Accept: "application/zip" }, new AbortController().signal);
    return response.blob();
  }

  /** Erase a member; the same request again joins it. Errors: 404 when it is over, 409 `last_owner` or `unmanaged`. */
  erase(userId: string, transferTo: string): Promise<Erasure> {
    return this.client.post(`/api/v1/members/${one(userId)}/erase`, transferTo ? { transferTo } : {});
  }

  /** The active workflows that the caller can see, for choices: the newest `MOST_WORKFLOWS`. */
  async workflows(): Promise<JsonObject[]> {
    const rows: JsonObject[] = [];
    for (let pageToken: string | null = null; rows.length < MOST_WORKFLOWS;) {
      const page: { workflows: JsonObject[]; nextPageToken: string | null } = await this.client.get("/api/v1/workflows", { status: "active", pageSize: 100, pageToken });
      rows.push(...page.workflows);
      if ((pageToken = page.nextPageToken) === null) break;
    }
    return rows;
  }

  /** Where the user grants the access. */
  async authorize(connectionId: string): Promise<string> {
    return (await this.client.post<{ url: string }>(`/api/v1/connections/${one(connectionId)}/authorize`)).url;
  }

  /** The new secret, which is shown once. */
  async rotate(hookId: string): Promise<string> {
    return (await this.client.post<{ secret: string }>(`/api/v1/hooks/${one(hookId)}/rotate`)).secret;
  }

  /** The deliveries of a hook, the newest first. */
  async deliveries(hookId: string, pageToken: string | null): Promise<{ rows: Delivery[]; next: string | null }> {
    const found = await this.client.get<{ deliveries: Delivery[]; nextPageToken: string | null }>(`/api/v1/hooks/${one(hookId)}/deliveries`, { pageSize: 30, pageToken });
    return { rows: found.deliveries, next: found.nextPageToken };
  }

  redeliver(hookId: string, deliveryId: string): Promise<Delivery> {
    return this.client.post(`/api/v1/hooks/${one(hookId)}/deliveries/${one(deliveryId)}/redeliver`);
  }

  /** The tools that the caller can use, and the servers that were called for them; all pages. */
  async tools(): Promise<{ tools: CatalogTool[]; servers: ToolServer[] }> {
    const tools: CatalogTool[] = [];
    let servers: ToolServer[] = [];
    for (let next: string | null = null, pages = 0; pages < 20; pages++) {
      const page: { tools: CatalogTool[]; servers: ToolServer[]; nextPageToken: string | null } = await this.client.get("/api/v1/tools", {
        pageSize: 100, pageToken: next,
      });
      tools.push(...page.tools);
      servers = page.servers;
      if ((next = page.nextPageToken) === null) break;
    }
    return { tools, servers };
  }

  /** A page of the active workflows with a schedule, by id, and `count` of the next times of each: at most `MOST_NEXT`. */
  async schedules(count: number, pageToken: string | null): Promise<{ rows: Scheduled[]; next: string | null }> {
    const found = await this.client.get<{ schedules: Scheduled[]; nextPageToken: string | null }>("/api/v1/schedules", { count, pageSize: 50, pageToken });
    return { rows: found.schedules, next: found.nextPageToken };
  }

  workflow(id: number): Promise<Tagged<Workflow>> {
    return this.client.tagged("GET", `/api/v1/workflows/${one(id)}`);
  }

  /** Switch the schedule of a workflow on or off. Errors: 409 `stale` if the workflow has changed since `etag`. */
  toggle(id: number, isEnabled: boolean, etag: string | null): Promise<Tagged<Workflow>> {
    return this.client.tagged("POST", `/api/v1/workflows/${one(id)}/toggle`, { isEnabled }, { headers: matching(etag) });
  }

  usage(from: string, groupBy: string): Promise<UsageReport> {
    return this.client.get("/api/v1/usage", { from, groupBy });
  }
}

/** A list of as many can have more. */
export const MOST_CHOICES = 5_000;
export const MOST_WORKFLOWS = 1_000;
export const MOST_NEXT = 100;
const matching = (etag: string | null): Record<string, string> => (etag ? { "If-Match": etag } : {});
