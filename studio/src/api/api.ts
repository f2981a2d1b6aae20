import { ApiError, type Client, mayPass } from "./client";
import { Names } from "./people";
import type {
  Caller, Decision, InboxItem, Json, JsonObject, RunEvent, RunGraph, RunRecord, Structure, Workflow,
} from "./types";

const one = (id: string | number) => encodeURIComponent(String(id));
/** A node id in a path, which separates them by commas. */
const pathPart = (id: string) => id.replace(/%/g, "%25").replace(/,/g, "%2C");

export interface RunFilters {
  status?: string;
  workflowId?: string;
  skillId?: string;
  origin?: string;
  startedBy?: string;
  since?: string;
  until?: string;
}

export interface Page<T> {
  rows: T[];
  next: string | null;
  total?: number;
}

/** The calls of the API that the studio makes, by name. A test compares the paths with the OpenAPI document. */
export class Api {
  private readonly workflows = new Map<number, Promise<Workflow | null>>();
  private readonly names = new Map<number, string>();

  /** Of people. */
  readonly people;

  constructor(readonly client: Client) {
    this.people = new Names(client);
  }

  /** The caller, with the read scopes that its write scopes include. */
  async me(): Promise<Caller> {
    const found = await this.client.get<Caller>("/api/v1/me");
    const included = found.scopes.filter((scope) => scope.endsWith(":write")).map((scope) => scope.replace(/write$/, "read"));
    return { ...found, scopes: [...new Set([...found.scopes, ...included])] };
  }

  /** Runs without large outputs. */
  async runs(filters: RunFilters, pageToken: string | null, pageSize = 50): Promise<Page<RunRecord>> {
    const found = await this.client.get<{ runs: RunRecord[]; nextPageToken: string | null }>("/agent/v1/runs", {
      ...filters, outputs: "cut", pageSize, pageToken,
    });
    return { rows: found.runs, next: found.nextPageToken };
  }

  run(runId: string): Promise<RunRecord> {
    return this.client.get(`/agent/v1/runs/${one(runId)}`);
  }

  graph(runId: string, path: string[]): Promise<RunGraph> {
    return this.client.get(`/agent/v1/runs/${one(runId)}/graph`, { path: path.map(pathPart).join(",") || null });
  }

  async events(runId: string): Promise<RunEvent[]> {
    return (await this.client.get<{ events: RunEvent[] }>(`/agent/v1/runs/${one(runId)}/events`)).events;
  }

  cancel(runId: string): Promise<JsonObject> {
    return this.client.post(`/agent/v1/runs/${one(runId)}/cancel`);
  }

  park(runId: string): Promise<JsonObject> {
    return this.client.post(`/agent/v1/runs/${one(runId)}/interrupt`);
  }

  resume(runId: string, body: JsonObject): Promise<{ runId: string; status: string }> {
    return this.client.once(`/agent/v1/runs/${one(runId)}/resume`, body);
  }

  /** A new turn of a failed or cancelled run. Errors: 409 with `info.differences` if the version does not fit. */
  retry(runId: string, version: "pinned" | "published" | "draft"): Promise<{ runId: string; status: string }> {
    return this.client.once(`/agent/v1/runs/${one(runId)}/retry`, { version });
  }

  async inbox(
    status: "open" | "decided", order: string, workflowId: string, pageToken: string | null,
  ): Promise<Page<InboxItem>> {
    const found = await this.client.get<{ interrupts: InboxItem[]; nextPageToken: string | null; total?: number }>(
      "/agent/v1/interrupts",
      { pageSize: 50, pageToken, workflowId, status: status === "open" ? null : status, order: order || null },
    );
    const page: Page<InboxItem> = { rows: found.interrupts, next: found.nextPageToken };
    return found.total === undefined ? page : { ...page, total: found.total };
  }

  async inboxCount(): Promise<number> {
    return (await this.client.get<{ count: number }>("/api/v1/me/inbox/count")).count;
  }

  /** The item of the inbox, open or decided; null if the caller cannot see it. */
  async interrupt(interruptId: string): Promise<InboxItem | null> {
    try {
      return await this.client.get<InboxItem>(`/agent/v1/interrupts/${one(interruptId)}`);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    }
  }

  /** Decide one interrupt: the new turn. Errors: 409 if it was decided before. */
  decide(item: InboxItem, decision: Decision["decision"], data?: Json): Promise<{ runId: string; status: string }> {
    const body: JsonObject = { interruptId: item.interruptId, decision };
    if (data !== undefined) body.data = data;
    return this.resume(item.runId, body);
  }

  async decideAll(decisions: Decision[]): Promise<JsonObject[]> {
    const found = await this.client.post<JsonObject>("/agent/v1/interrupts/decide", { decisions });
    return (Object.values(found).find(Array.isArray) ?? []) as JsonObject[];
  }

  async workflowPage(query: { q?: string; status?: string }, pageToken: string | null): Promise<Page<Workflow>> {
    const found = await this.client.get<{ workflows: Workflow[]; nextPageToken: string | null }>("/api/v1/workflows", {
      ...query, pageToken, pageSize: 50,
    });
    for (const row of found.workflows) this.names.set(row.id, row.name);
    return { rows: found.workflows, next: found.nextPageToken };
  }

  /** The name of a workflow that has been read. */
  nameOf = (id: number) => this.names.get(id);

  /** The workflow, read once; null if the caller cannot see it, or if it could not be read this time. */
  workflow(id: number): Promise<Workflow | null> {
    let found = this.workflows.get(id);
    if (!found) {
      found = this.client.get<Workflow>(`/api/v1/workflows/${one(id)}`).then((workflow) => {
        this.names.set(id, workflow.name);
        return workflow;
      }, (error: unknown) => {
        if (mayPass(error)) this.workflows.delete(id);
        return null;
      });
      this.workflows.set(id, found);
    }
    return found;
  }

  /** The graph that a run executes: the pinned variation, or else the active one. */
  async structure(workflowId: number, variationId: string | null | undefined): Promise<Structure | null> {
    if (variationId) {
      try {
        const path = `/api/v1/workflows/${one(workflowId)}/variations/${one(variationId)}`;
        const found = await this.client.get<JsonObject>(path);
        const structure = found.workflowStructure ?? (found.variation as JsonObject | undefined)?.workflowStructure;
        if (structure) return structure as unknown as Structure;
      } catch (error) {
        if (mayPass(error)) throw error;
        // an older server, or a variation that only managers can read
      }
    }
    return (await this.workflow(workflowId))?.variation?.workflowStructure ?? null;
  }
}
