import { useCallback, useEffect, useMemo, useState } from "react";
import { type ChatAppRow, Chats, type Conversation } from "../api/chats";
import { ApiError, randomId } from "../api/client";
import type { Tool, Workflow } from "../api/types";
import de from "../chat/de.json";
import en from "../chat/en.json";
import { ChatSession, type Partner } from "../chat/session";
import { type Names, Thread } from "../chat/Thread";
import { useHost, useLoaded } from "../elements/context";
import { LanguageContext, useLanguage } from "../i18n/context";
import { toolName } from "../i18n/names";
import { Icon } from "../kit/icons";
import { Failure, Loading } from "../kit/kit";
import { brief } from "../kit/safe";
import { keep, kept } from "../kit/tab";
import { Confirm } from "./parts";

export interface ChatProps {
  skillId?: string;
  workflowId?: string;
  assistant?: boolean;
  /** The chat page of an interface: its partner is that of the interface. */
  interfaceId?: string;
  sessionId?: string;
  /** Within another page, whose heading it is below. */
  embedded?: boolean;
  /** With the draft of the skill, for who can manage it. */
  draft?: boolean;
}

/** A chat with a skill, a workflow or the assistant; without any of them, a choice of partners. */
export default function ChatPage(props: ChatProps) {
  const language = useLanguage();
  const extended = useMemo(() => language.extend({ en, de }), [language]);
  const [chosen, setChosen] = useState<ChatProps | null>(null);
  const given = props.skillId ?? props.workflowId ?? props.interfaceId ?? props.assistant;
  useEffect(() => setChosen(null), [given]);
  const shown = given ? props : chosen;
  return (
    <LanguageContext value={extended}>
      {shown ? <Chat key={JSON.stringify([shown.skillId, shown.workflowId, shown.assistant, shown.interfaceId])} {...shown} /> : <Partners onChoose={setChosen} />}
    </LanguageContext>
  );
}

function Partners({ onChoose }: { onChoose: (props: ChatProps) => void }) {
  const { t } = useLanguage();
  const host = useHost();
  const [search, setSearch] = useState("");
  const query = { status: "active", pageSize: 100, ...(search.trim() ? { q: search.trim() } : {}) };
  const found = useLoaded(`partners ${search.trim()}`, async () => {
    const [skills, workflows] = await Promise.all([
      host.client.get<Listed>("/api/v1/skills", query),
      host.client.get<Listed>("/api/v1/workflows", query).catch((error: unknown): Listed => {
        if (error instanceof ApiError && error.status === 403) return { nextPageToken: null };
        throw error;
      }),
    ]);
    const usable = (rows: Workflow[] | undefined) => (rows ?? []).filter((one) => one.canUse);
    return { skills: usable(skills.skills), workflows: usable(workflows.workflows), isCut: (skills.nextPageToken ?? workflows.nextPageToken) !== null };
  });
  const choose = (props: ChatProps) => {
    onChoose(props);
    host.emit("thread", { skillId: props.skillId ?? null, workflowId: props.workflowId ?? null, assistant: props.assistant === true, sessionId: null });
  };
  const card = (icon: string, one: { name: string; description: string | null }, props: ChatProps) => (
    <li key={JSON.stringify(props)}>
      <button type="button" className="card" onClick={() => choose(props)}>
        <Icon name={icon} /><strong>{brief(one.name, 100)}</strong>
        <span className="muted">{brief(one.description ?? "", 160)}</span>
      </button>
    </li>
  );
  const workflows = found.value?.workflows ?? [];
  return (
    <div className="page">
      <div className="head">
        <h1 className="grow">{t("chat.title")}</h1>
        {(search || found.value?.isCut) && <input type="search" className="input" style={{ width: 200 }} aria-label={t("chat.search")} placeholder={t("chat.search")} value={search} onChange={(event) => setSearch(event.target.value)} />}
      </div>
      {found.loading && !found.value ? <Loading rows={6} /> : (
        <div className="scroll pad stack">
          <ul className="partners">
            {card("chat", { name: t("chat.assistant"), description: t("chat.assistantHint") }, { assistant: true })}
            {found.value?.skills.map((one) => card("skills", one, { skillId: String(one.id) }))}
          </ul>
          {workflows.length > 0 && <h2>{t("nav.workflows")}</h2>}
          {workflows.length > 0 && <ul className="partners">{workflows.map((one) => card("workflows", one, { workflowId: String(one.id) }))}</ul>}
          {found.problem && <Failure problem={found.problem} onRetry={found.reload} />}
        </div>
      )}
    </div>
  );
}

interface Listed {
  skills?: Workflow[];
  workflows?: Workflow[];
  nextPageToken: string | null;
}

function Chat(props: ChatProps) {
  const { t } = useLanguage();
  const { api, client } = useHost();
  const chats = useMemo(() => new Chats(client), [client]);
  const found = useLoaded("partner", async () => {
    const partner = await partnerOf(props, chats, t("chat.assistant"));
    // Threads are the caller's own: another user's chat with the same partner is not listed here.
    const me = await api.me();
    const { type, id } = partner.target;
    return { partner, prefix: `chat_${props.interfaceId ?? `${type}-${id ?? 0}`}_${digest(me.userId)}_` };
  });
  if (found.problem && !found.value) return <Failure problem={found.problem} onRetry={found.reload} />;
  if (!found.value) return <Loading rows={6} />;
  return <Threads {...found.value} chats={chats} sessionId={props.sessionId} embedded={props.embedded === true} />;
}

async function partnerOf(props: ChatProps, chats: Chats, assistant: string): Promise<Partner> {
  if (props.interfaceId) {
    const app: ChatAppRow = await chats.app(props.interfaceId);
    const target = app.skillId === null ? { type: "workflow", id: app.workflowId } : { type: "skill", id: app.skillId };
    return { target, draft: false, name: app.name, description: app.description ?? "", takesMessage: app.takesMessage };
  }
  if (props.assistant) return { target: { type: "assistant", id: null }, draft: false, name: assistant, description: "", takesMessage: false };
  const type = props.skillId ? "skill" : "workflow";
  const id = Number(props.skillId ?? props.workflowId);
  const one = await chats.client.get<Workflow>(`/api/v1/${type}s/${encodeURIComponent(id)}`);
  return { target: { type, id }, draft: props.draft === true, name: one.name, description: one.description ?? "", takesMessage: type === "workflow" && takesMessage(one) };
}

/** Whether the input of a run contains the message: as the server says it for chat pages. */
function takesMessage(workflow: Workflow): boolean {
  const start = workflow.variation?.workflowStructure?.nodes.find((node) => node.type === "start");
  const properties = (start?.data?.inputSchema as { properties?: object } | undefined)?.properties;
  return !properties || "message" in properties;
}

/** A short digest (FNV-1a) that separates the threads of users. */
function digest(text: string): string {
  let hash = 0x811c9dc5;
  for (const one of text) hash = Math.imul(hash ^ one.codePointAt(0)!, 0x01000193) >>> 0;
  return hash.toString(36);
}

function Threads({ partner, prefix, chats, sessionId, embedded }: {
  partner: Partner; prefix: string; chats: Chats; sessionId: string | undefined; embedded: boolean;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const storageKey = `studio-chat ${host.client.baseUrl} ${prefix}`;
  const [chosen, setChosen] = useState(() => sessionId ?? kept(storageKey) ?? randomId());
  const [rows, setRows] = useState<Conversation[]>([]);
  const [isListed, setListed] = useState(false);
  const names = useNames();
  useEffect(() => {
    if (sessionId) setChosen(sessionId);
  }, [sessionId]);
  // A chat without a message too: what is typed there is found again.
  useEffect(() => {
    if (!sessionId) keep(storageKey, chosen);
  }, [sessionId, storageKey, chosen]);
  const list = useCallback(() => void chats.conversations(prefix).then(setRows, () => undefined), [chats, prefix]);
  useEffect(list, [list]);
  const choose = (next: string, isNew = false) => host.unsaved.leave(() => {
    setChosen(next);
    setListed(false);
    keep(storageKey, next);
    host.emit("thread", { ...idsOf(partner), sessionId: isNew ? null : next });
  }, undefined, "answers");
  const thread = `${prefix}${encodeURIComponent(chosen).slice(0, 150)}`;
  const session = useMemo(() => new ChatSession(host.api, chats, partner, thread, {
    onStart: (body) => {
      keep(storageKey, chosen);
      return host.emit("before-run", body);
    },
    onRun: (runId) => {
      host.emit("run-start", { runId, ...idsOf(partner) });
      host.emit("thread", { ...idsOf(partner), sessionId: chosen });
    },
    onEnd: (runId, status) => {
      host.emit("run-end", { runId, status });
      list();
    },
  }), [host, chats, partner, thread]);
  useEffect(() => {
    void session.start();
    return () => session.stop();
  }, [session]);
  const others = rows.filter((row) => row.threadId !== thread);
  return (
    <div className="page">
      <div className="head">
        {embedded ? <span className="grow">{partner.draft && <span className="tag wait">{t("chat.draft")}</span>}</span> : <h1 className="clip grow">{brief(partner.name, 120)}</h1>}
        {host.wants("threads") && others.length > 0 && (
          <button type="button" className="button small" aria-expanded={isListed} onClick={() => setListed(!isListed)}><Icon name="clock" />{t("chat.earlier")}</button>
        )}
        {host.wants("threads") && <button type="button" className="button small" onClick={() => choose(randomId(), true)}><Icon name="plus" />{t("chat.new")}</button>}
      </div>
      {isListed && <Earlier rows={others} prefix={prefix} chats={chats} onChoose={choose} onForgotten={list} />}
      <Thread key={thread} session={session} chats={chats} partner={partner} names={names} autoFocus={!embedded} />
    </div>
  );
}

const idsOf = ({ target }: Partner) => ({
  skillId: target.type === "skill" ? String(target.id) : null, workflowId: target.type === "workflow" ? String(target.id) : null, assistant: target.type === "assistant",
});

function Earlier({ rows, prefix, chats, onChoose, onForgotten }: {
  rows: Conversation[]; prefix: string; chats: Chats; onChoose: (session: string) => void; onForgotten: () => void;
}) {
  const { t, ago, dateTime } = useLanguage();
  const [removed, setRemoved] = useState<Conversation | null>(null);
  const title = (row: Conversation) => brief(row.messages.find((message) => message.type === "human")?.content ?? "", 80) || t("chat.untitled");
  return (
    <nav className="earlier" aria-label={t("chat.earlier")}>
      <ul>
        {rows.map((row) => (
          <li key={row.threadId} className="row">
            <button type="button" className="child grow" onClick={() => onChoose(decodeURIComponent(row.threadId.slice(prefix.length)))}>
              <span className="clip grow">{title(row)}</span><time className="muted num" dateTime={row.updatedAt} title={dateTime(row.updatedAt)}>{ago(row.updatedAt)}</time>
            </button>
            <button type="button" className="button plain square" aria-label={t("chat.forget", { name: title(row) })} onClick={() => setRemoved(row)}><Icon name="close" /></button>
          </li>
        ))}
      </ul>
      {removed && (
        <Confirm key={removed.threadId} title={t("chat.forgetAsk")} action={t("chat.forgetDo")} act={() => chats.forget(removed.threadId).then(onForgotten)} onDone={() => setRemoved(null)} onClose={() => setRemoved(null)}>
          <p className="muted">{title(removed)}</p>
        </Confirm>
      )}
    </nav>
  );
}

/** The readable names of skills and tools; each skill is read when it is first seen. */
function useNames(): Names {
  const { client } = useHost();
  const language = useLanguage();
  const [known, setKnown] = useState(() => new Map<string, string>());
  const asked = useMemo(() => new Set<string>(), []);
  useEffect(() => {
    void client.get<{ tools: Tool[] }>("/api/v1/tools", { pageSize: 100 }).then(
      ({ tools }) => setKnown((old) => new Map([...old, ...tools.map((tool) => [tool.id, toolName(language, tool)] as const)])), () => undefined,
    );
  }, [client, language]);
  return (toolId, name) => {
    const [kind, id] = (toolId ?? "").split(":");
    if (toolId && !known.has(toolId) && !asked.has(toolId) && (kind === "skill" || kind === "workflow")) {
      asked.add(toolId);
      void client.get<Workflow>(`/api/v1/${kind}s/${encodeURIComponent(id ?? "")}`).then((one) => setKnown((old) => new Map([...old, [toolId, one.name]])), () => undefined);
    }
    return (toolId && known.get(toolId)) || toolId || name;
  };
}

