import { ApiError, type Client } from "./client";
import { peopleOf } from "./people";
import type { Evaluated, GraphDiff, Impact, Issue, Json, JsonObject, NodeTrial, GraphLimits, NodeType, Proposal, Simulation, Structure, Tool, Variation, Workflow } from "./types";

const one = (id: string | number) => encodeURIComponent(String(id));
const PAGES = 40;

export interface Webhook {
  url: string;
  secret: string;
}

export interface Draft {
  workflow: Workflow;
  etag: string | null;
}

/** Where the lists are of what fields of nodes refer to, by the key of the rows in their pages. */
const LISTED = {
  skills: "/api/v1/skills", workflows: "/api/v1/workflows", connections: "/api/v1/connections", groups: "/api/v1/groups",
} as const;

/** What fields of nodes refer to. */
export type Listed = keyof typeof LISTED | "members";

/** For how long a list of what can be referred to is not read again, in milliseconds. */
const FRESH_MS = 15_000;

/** A way by which others use a deployed workflow. `config` can have keys of other programs; `url` is a path of the server. */
export interface Interface {
  id: string;
  kind: "chatapp" | "mcp" | "teamchat";
  config: JsonObject;
  url: string;
}

/** The calls of the API with which workflows are built. */
export class Editing {
  private readonly lists = new Map<Listed, { at: number; rows: Promise<object[]> }>();

  readonly people;

  constructor(private readonly client: Client) {
    this.people = peopleOf(client);
  }

  /** All that the caller can see of a list, of people a page; the same one for a while. */
  listed(list: Listed): Promise<object[]> {
    const known = this.lists.get(list);
    if (known && performance.now() - known.at < FRESH_MS) return known.rows;
    const rows = list === "members" ? this.people() : this.all<object>(LISTED[list], list);
    this.lists.set(list, { at: performance.now(), rows });
    rows.catch(() => this.lists.delete(list));
    return rows;
  }

  /** A skill or workflow, which can be deleted. Errors: 404. */
  referred(list: "skills" | "workflows", id: string): Promise<{ name: string; status: string; canUse?: boolean }> {
    return this.client.get(list === "skills" ? `/api/v1/skills/${one(id)}` : `/api/v1/workflows/${one(id)}`);
  }

  create(name: string, structure: Structure): Promise<Workflow> {
    const body = { name, type: "workflow", workflowStructure: structure };
    return this.client.once("/api/v1/workflows", body);
  }

  /** The draft for who can manage the workflow, else what is deployed. */
  async read(id: number): Promise<Draft> {
    const path = `/api/v1/workflows/${one(id)}`;
    const active = await this.client.tagged<Workflow>("GET", path);
    if (!active.value.canManage) return { workflow: active.value, etag: null };
    const draft = await this.client.tagged<Workflow>("GET", path, undefined, { query: { view: "draft" } });
    return { workflow: draft.value, etag: draft.etag };
  }

  /** The draft if it has another ETag now, else null. */
  async newer(id: number, etag: string): Promise<Draft | null> {
    try {
      const draft = await this.client.tagged<Workflow>("GET", `/api/v1/workflows/${one(id)}`, undefined, { query: { view: "draft" }, headers: { "If-None-Match": etag } });
      return { workflow: draft.value, etag: draft.etag };
    } catch (error) {
      if (error instanceof ApiError && error.status === 304) return null;
      throw error;
    }
  }

  /** Write the draft. Errors: 409 with the reason `stale` if it has changed since it was read. */
  async save(id: number, structure: Structure, etag: string | null, keepalive = false): Promise<Draft> {
    const headers: Record<string, string> = etag === null ? {} : { "If-Match": etag };
    const saved = await this.client.tagged<Workflow>(
      "PATCH", `/api/v1/workflows/${one(id)}`, { workflowStructure: structure }, { headers, keepalive },
    );
    return { workflow: saved.value, etag: saved.etag };
  }

  async issues(id: number): Promise<Issue[]> {
    return (await this.client.read<{ issues: Issue[] }>(`/api/v1/workflows/${one(id)}/validate?view=draft`)).issues;
  }

  /** Change fields of the workflow. Errors: as of `save`. */
  async update(id: number, body: JsonObject, etag: string | null): Promise<Draft> {
    const headers: Record<string, string> = etag === null ? {} : { "If-Match": etag };
    const saved = await this.client.tagged<Workflow>("PATCH", `/api/v1/workflows/${one(id)}`, body, { headers });
    return { workflow: saved.value, etag: saved.etag };
  }

  /** Delete the workflow, with its draft; its runs stay. */
  async remove(id: number): Promise<void> {
    await this.client.tagged("DELETE", `/api/v1/workflows/${one(id)}`);
  }

  async restore(id: number): Promise<void> {
    await this.client.post(`/api/v1/workflows/${one(id)}/restore`);
  }

  /** Where messages start runs of the workflow, and the secret with which they are signed. */
  webhook(id: number): Promise<Webhook> {
    return this.client.get(`/api/v1/workflows/${one(id)}/webhook`);
  }

  /** Replace the secret; messages that are signed with the old one are refused. */
  rotateWebhook(id: number): Promise<Webhook> {
    return this.client.post(`/api/v1/workflows/${one(id)}/webhook/rotate`, {});
  }

  /** The kind of the trigger that is deployed; null without one. */
  async activeTrigger(id: number): Promise<string | null> {
    const workflow = await this.client.get<Workflow>(`/api/v1/workflows/${one(id)}`);
    return workflow.activeVariationId ? (workflow.variation?.trigger?.trigger_type ?? null) : null;
  }

  /** The ways by which others use the deployed workflow, oldest first. Errors: 403 without the right to manage it. */
  interfaces(id: number): Promise<Interface[]> {
    return this.all(`/api/v1/workflows/${one(id)}/interfaces`, "interfaces");
  }

  createInterface(id: number, kind: Interface["kind"], config: JsonObject): Promise<Interface> {
    return this.client.once(`/api/v1/workflows/${one(id)}/interfaces`, { kind, config });
  }

  async changeInterface(id: number, interfaceId: string, config: JsonObject): Promise<void> {
    await this.client.tagged("PATCH", `/api/v1/workflows/${one(id)}/interfaces/${one(interfaceId)}`, { config });
  }

  async removeInterface(id: number, interfaceId: string): Promise<void> {
    await this.client.tagged("DELETE", `/api/v1/workflows/${one(id)}/interfaces/${one(interfaceId)}`);
  }

  /** The secret by which messages of a team chat are signed in both directions. */
  interfaceSecret(id: number, interfaceId: string): Promise<Webhook> {
    return this.client.get(`/api/v1/workflows/${one(id)}/interfaces/${one(interfaceId)}/secret`);
  }

  /** What an expression (`source`) or a `template` yields with these values. Nothing is stored or called. */
  evaluate(of: { source: string } | { template: Json }, values: JsonObject): Promise<Evaluated> {
    return this.client.read("/api/v1/expressions/evaluate", { ...of, values });
  }

  /** Every end that runs of the graph can have, and whether rules hold for all of them. Nothing is called. */
  simulate(structure: Structure, input: JsonObject | null, rules: string[]): Promise<Simulation> {
    return this.client.read("/api/v1/workflows/simulate", { workflowStructure: structure, input, rules });
  }

  /** What a model proposes for a request in words. Nothing is saved. Errors: 422 if it proposes nothing valid. */
  propose(id: number, body: { request: string; model?: string }): Promise<Proposal> {
    return this.client.post(`/api/v1/workflows/${one(id)}/proposals`, body);
  }

  tryNode(id: number, node: string, body: JsonObject): Promise<NodeTrial> {
    return this.client.post(`/api/v1/workflows/${one(id)}/nodes/${one(node)}/test`, body);
  }

  /** What a deploy would mean; its ETag binds the deploy to it. */
  async impact(id: number): Promise<{ value: Impact; etag: string | null }> {
    return this.client.tagged("GET", `/api/v1/workflows/${one(id)}/impact`);
  }

  /** Moves all waiting runs to the active version, where they fit. */
  async moveRuns(id: number): Promise<{ runId: string; moved: boolean }[]> {
    const path = `/api/v1/workflows/${one(id)}/move-runs`;
    return (await this.client.post<{ runs: { runId: string; moved: boolean }[] }>(path, { all: true })).runs;
  }

  /** How a version, by default the draft, differs from another one: its id, or `active`. */
  diff(id: number, from = "active", to = "draft"): Promise<GraphDiff> {
    return this.client.get(`/api/v1/workflows/${one(id)}/diff`, { from, to });
  }

  async variations(id: number): Promise<Variation[]> {
    return this.all(`/api/v1/workflows/${one(id)}/variations`, "variations");
  }

  rollBack(id: number, variationId: string): Promise<Workflow> {
    return this.client.post(`/api/v1/workflows/${one(id)}/rollback`, { variationId });
  }

  toggle(id: number): Promise<Workflow> {
    return this.client.post(`/api/v1/workflows/${one(id)}/toggle`);
  }

  async nextRuns(id: number): Promise<{ at: string; note: string | null }[]> {
    const path = `/api/v1/workflows/${one(id)}/next-runs`;
    return (await this.client.get<{ nextRuns: { at: string; note: string | null }[] }>(path, { count: 5 })).nextRuns;
  }

  groups(): Promise<{ id: string; name: string }[]> {
    return this.all("/api/v1/groups", "groups");
  }

  deploy(id: number, etag: string | null): Promise<Workflow> {
    return this.client.post(`/api/v1/workflows/${one(id)}/deploy`, {}, etag === null ? {} : { "If-Match": etag });
  }

  start(body: JsonObject): Promise<{ runId: string; status: string }> {
    return this.client.once("/agent/v1/runs", body);
  }

  /** A new execution with the results of a run, which continues before a node. Errors: 409 if the draft does not fit. */
  fork(runId: string, body: JsonObject): Promise<{ runId: string; status: string }> {
    return this.client.once(`/agent/v1/runs/${one(runId)}/fork`, body);
  }

  /** The types of nodes, and the most nodes and edges of a graph. */
  nodeTypes(): Promise<{ nodeTypes: NodeType[]; limits?: GraphLimits }> {
    return this.client.get("/api/v1/node-types");
  }

  tools(): Promise<Tool[]> {
    return this.all("/api/v1/tools", "tools");
  }

  async models(): Promise<string[]> {
    return (await this.client.get<{ models: { name: string }[] }>("/api/v1/models")).models.map((model) => model.name);
  }

  /** All rows of a list; an empty one without its read scope. */
  private async all<T>(path: string, key: string): Promise<T[]> {
    const rows: T[] = [];
    let pageToken: string | null = null;
    for (let page = 0; page < PAGES; page++) {
      const found: Record<string, unknown> = await this.client.get(path, { pageSize: 100, pageToken });
      rows.push(...(found[key] as T[]));
      pageToken = found.nextPageToken as string | null;
      if (pageToken === null) break;
    }
    return rows;
  }
}
