import type { Client, Tagged } from "./client";
import type { Json, JsonObject, Variation } from "./types";

/** The content of a skill. Each entry of `toolset` is `{"enabled", "requiresApproval"}`. */
export interface SkillContent {
  instructions?: string[];
  expectedOutput?: string;
  model?: string;
  toolset?: Record<string, { enabled: boolean; requiresApproval?: boolean }>;
  supervisionSubordinateIds?: string[];
  interfaces?: { kind: string; config?: JsonObject; url?: string }[];
  evaluations?: EvaluationCase[];
}

export interface SkillRecord {
  id: number;
  name: string;
  description: string | null;
  status: string;
  hasUnpublishedChanges: boolean;
  activeVariationId: string | null;
  draftVariationId: string | null;
  canManage: boolean;
  canUse: boolean;
  variation: SkillContent | null;
}

export interface EvaluationCase {
  id: string;
  name?: string;
  required?: boolean;
  input: { message: string };
  checks: { kind: string }[];
}

export interface CheckResult {
  kind: string;
  passed: boolean;
  message: string;
}

export interface EvaluationResult {
  caseId: string;
  name: string | null;
  required: boolean;
  variationId: string;
  /** Null until the run has ended. */
  passed: boolean | null;
  checks: CheckResult[];
  output: Json;
  error: string | null;
  toolCalls: { tool: string; args: Json; output?: Json }[];
  cost: number | null;
  runId: string;
}

export interface CaseComparison {
  caseId: string;
  name: string | null;
  passed: Record<string, boolean | null>;
}

export interface EvaluationResults {
  results: EvaluationResult[];
  comparison: CaseComparison[];
}

export interface Memory {
  id: string;
  memory: string;
  metadata: JsonObject;
  updatedAt: string;
}

export interface ContextSegment {
  source: string;
  ref: string | null;
  tokens: number;
  why: string;
}

export interface ContextTool {
  name: string;
  toolId: string;
  title?: string;
  description: string;
  parameters: Json;
  requiresApproval: boolean;
  digest: string;
}

/** What a run would send to its model. */
export interface ComposedContext {
  messages: { type: string; content: string }[];
  tools: ContextTool[];
  segments: ContextSegment[];
  leftOut: { source: string; ref: string | null; why: string }[];
  model: string;
  contextWindow: number;
  tokenEstimate: number;
  digest: string;
}

export type View = "draft" | "active";

const one = (id: string | number) => encodeURIComponent(String(id));

const MOST_SKILLS = 5_000;

/** The calls of the API for one skill. */
export class Skills {
  constructor(private readonly client: Client) {}

  async page(query: { q?: string; status?: string }, pageToken: string | null, pageSize = 50): Promise<{ rows: SkillRecord[]; next: string | null }> {
    const found = await this.client.get<{ skills: SkillRecord[]; nextPageToken: string | null }>("/api/v1/skills", { ...query, pageToken, pageSize });
    return { rows: found.skills, next: found.nextPageToken };
  }

  /** The skills that the caller can see, for choices: at most `MOST_SKILLS`. */
  async all(): Promise<SkillRecord[]> {
    const rows: SkillRecord[] = [];
    for (let next: string | null = null; rows.length < MOST_SKILLS;) {
      const page = await this.page({}, next, 100);
      rows.push(...page.rows);
      if ((next = page.next) === null) break;
    }
    return rows;
  }

  create(name: string): Promise<SkillRecord> {
    return this.client.once("/api/v1/skills", { name });
  }

  /** The draft for who can manage the skill, else what is deployed. */
  async read(id: number): Promise<Tagged<SkillRecord>> {
    const path = `/api/v1/skills/${one(id)}`;
    const active = await this.client.tagged<SkillRecord>("GET", path);
    return active.value.canManage ? this.client.tagged<SkillRecord>("GET", path, undefined, { query: { view: "draft" } }) : active;
  }

  /** Errors: 409 `stale` if it has changed since `etag`. */
  change(id: number, body: JsonObject, etag: string | null): Promise<Tagged<SkillRecord>> {
    return this.client.tagged("PATCH", `/api/v1/skills/${one(id)}`, body, { headers: etag ? { "If-Match": etag } : {} });
  }

  /** Errors: 409 `evaluations` with `info.cases` while required cases have not passed; `force` overrides it. */
  deploy(id: number, force: boolean): Promise<SkillRecord> {
    return this.client.post(`/api/v1/skills/${one(id)}/deploy`, force ? { force } : {});
  }

  /** Delete the skill, with its draft; its runs and memories stay. */
  async remove(id: number): Promise<void> {
    await this.client.tagged("DELETE", `/api/v1/skills/${one(id)}`);
  }

  async restore(id: number): Promise<void> {
    await this.client.post(`/api/v1/skills/${one(id)}/restore`);
  }

  async variations(id: number): Promise<Variation[]> {
    return (await this.client.get<{ variations: Variation[] }>(`/api/v1/skills/${one(id)}/variations`, { pageSize: 50 })).variations;
  }

  async models(): Promise<string[]> {
    return (await this.client.get<{ models: { name: string }[] }>("/api/v1/models")).models.map((model) => model.name);
  }

  async memories(id: number, userId: string, pageToken: string | null): Promise<{ rows: Memory[]; next: string | null }> {
    const query = { userId, pageToken, pageSize: 50 };
    const found = await this.client.get<{ memories: Memory[]; nextPageToken: string | null }>(`/api/v1/skills/${one(id)}/memories`, query);
    return { rows: found.memories, next: found.nextPageToken };
  }

  async findMemories(id: number, query: string, userId: string): Promise<Memory[]> {
    const body = { query, limit: 100, ...(userId ? { userId } : {}) };
    return (await this.client.read<{ memories: Memory[] }>(`/api/v1/skills/${one(id)}/memories/search`, body)).memories;
  }

  remember(id: number, memory: string, userId: string): Promise<Memory> {
    const body = { memory, ...(userId ? { userId } : {}) };
    return this.client.once(`/api/v1/skills/${one(id)}/memories`, body);
  }

  async changeMemory(id: number, memoryId: string, memory: string): Promise<Memory> {
    return (await this.client.tagged<Memory>("PATCH", `/api/v1/skills/${one(id)}/memories/${one(memoryId)}`, { memory })).value;
  }

  async forget(id: number, memoryId: string): Promise<void> {
    await this.client.tagged("DELETE", `/api/v1/skills/${one(id)}/memories/${one(memoryId)}`);
  }

  context(id: number, body: JsonObject): Promise<ComposedContext> {
    return this.client.read(`/api/v1/skills/${one(id)}/context`, body);
  }

  evaluate(id: number, view: View): Promise<{ id: string }> {
    return this.client.post(`/api/v1/skills/${one(id)}/evaluations/run?view=${view}`);
  }

  /** The newest results of these variations; of none, those of the draft and the active one. */
  results(id: number, variations: string[]): Promise<EvaluationResults> {
    return this.client.get(`/api/v1/skills/${one(id)}/evaluations/results`, { variationId: variations.join(",") });
  }
}
