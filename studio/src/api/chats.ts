import type { Client } from "./client";
import type { Json, JsonObject, RunRecord, Upload } from "./types";

export interface MessageCall {
  id: string;
  name: string;
  args: Json;
}

export interface ConversationMessage {
  id: string;
  type: "human" | "ai" | "tool" | "system";
  content: string;
  toolCalls: MessageCall[];
  toolCallId?: string;
  attachments?: { images: { storageKey: string; mimeType: string }[]; documents: { name?: string; storageKey?: string }[] };
}

export interface Conversation {
  threadId: string;
  skillId: number;
  messages: ConversationMessage[];
  createdAt: string;
  updatedAt: string;
  nextPageToken?: string | null;
}

/** The workflow or skill behind a chat page. */
export interface ChatAppRow {
  id: string;
  workflowId: number | null;
  skillId: number | null;
  name: string;
  description: string | null;
  takesMessage: boolean;
}

const PAGES = 3;
const ALL_SKILLS = 0;
const one = (id: string | number) => encodeURIComponent(String(id));

/** The calls of the API for conversations. */
export class Chats {
  constructor(readonly client: Client) {}

  app(interfaceId: string): Promise<ChatAppRow> {
    return this.client.get(`/interfaces/chatapp/${one(interfaceId)}/workflow`);
  }

  /** A thread with its newest messages; with `pageToken`, older ones. */
  conversation(threadId: string, pageToken: string | null = null): Promise<Conversation> {
    return this.client.get(`/api/v1/skills/${ALL_SKILLS}/conversations/${one(threadId)}`, { pageToken });
  }

  /** The threads whose ids begin with `prefix`, the latest first, of the newest ones of all skills. */
  async conversations(prefix: string): Promise<Conversation[]> {
    const rows: Conversation[] = [];
    for (let next: string | null = null, pages = 0; pages < PAGES; pages++) {
      const page: { conversations: Conversation[]; nextPageToken: string | null } = await this.client.get(`/api/v1/skills/${ALL_SKILLS}/conversations`, {
        pageSize: 100, pageToken: next,
      });
      rows.push(...page.conversations.filter((row) => row.threadId.startsWith(prefix)));
      if ((next = page.nextPageToken) === null) break;
    }
    return rows;
  }

  forget(threadId: string): Promise<Conversation> {
    return this.client.tagged<Conversation>("DELETE", `/api/v1/skills/${ALL_SKILLS}/conversations/${one(threadId)}`).then((found) => found.value);
  }

  /** The newest turns of a thread, the latest first, without large outputs. */
  async runs(threadId: string): Promise<RunRecord[]> {
    return (await this.client.get<{ runs: RunRecord[] }>("/agent/v1/runs", { threadId, outputs: "cut", pageSize: 100 })).runs;
  }

  /** Store the content of an attachment. Errors: 422 for content that is neither an image nor text, 413. */
  upload(file: Blob): Promise<Upload> {
    return this.client.post("/agent/v1/uploads", file, { "Content-Type": "application/octet-stream" });
  }
}

/** The `attachments` of a body that name uploads. */
export function attachmentsOf(uploads: { name: string; upload: Upload }[]): JsonObject {
  const images = uploads.filter(({ upload }) => upload.mimeType.startsWith("image/"));
  const documents = uploads.filter(({ upload }) => !upload.mimeType.startsWith("image/"));
  return {
    ...(images.length ? { images: images.map(({ name, upload }) => ({ uploadId: upload.uploadId, name })) } : {}),
    ...(documents.length ? { documents: documents.map(({ name, upload }) => ({ uploadId: upload.uploadId, fileName: name })) } : {}),
  };
}
