import { type DragEvent, type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Chats } from "../api/chats";
import type { Upload } from "../api/types";
import { problemOf, useChanges, useHost, useKept, useUnsaved } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { JsonBlock } from "../kit/JsonView";
import { Failure, Loading } from "../kit/kit";
import { Named, Refusal } from "../kit/named";
import { brief, readable } from "../kit/safe";
import { Approval } from "../pages/Approval";
import { Markdown, Plain } from "./Markdown";
import type { ChatSession, Partner } from "./session";
import type { Author, Chain, Entry, Message, Step } from "./transcript";

/** The names of skills and tools by their tool id. */
export type Names = (toolId: string | null, name: string) => string;

/** The messages of a thread, what waits for a decision, and the box for the next message. */
export function Thread({ session, chats, partner, names, autoFocus }: { session: ChatSession; chats: Chats; partner: Partner; names: Names; autoFocus: boolean }) {
  const { t } = useLanguage();
  const state = useSyncExternalStore(session.subscribe, session.current);
  const scroll = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const atEnd = useRef(true);
  const before = useRef({ first: "", height: 0 });
  useLayoutEffect(() => {
    const area = scroll.current;
    if (!area) return;
    const first = state.entries[0]?.entry.key ?? "";
    const isLonger = before.current.first !== "" && before.current.first !== first;
    if (atEnd.current) area.scrollTop = area.scrollHeight;
    // Where the browser has kept the place of what is read, as it does except at the very top, there is nothing to add.
    else if (isLonger && area.scrollTop < area.scrollHeight - before.current.height) area.scrollTop += area.scrollHeight - before.current.height;
    before.current = { first, height: area.scrollHeight };
  });
  useEffect(() => {
    const area = scroll.current!;
    // Messages that come into sight get their true height only then.
    const watch = new ResizeObserver(() => {
      if (atEnd.current) area.scrollTop = area.scrollHeight;
    });
    watch.observe(area.querySelector(".log")!);
    return () => watch.disconnect();
  }, []);
  useChanges(["run", "interrupt"], () => void session.refresh());
  const [decisions, setDecisions] = useState(0);
  const decided = () => setDecisions((count) => count + 1);
  // In the rendering that closes the request: its buttons are gone.
  useLayoutEffect(() => {
    if (decisions) (scroll.current!.querySelector<HTMLElement>("[data-decision]") ?? box.current)?.focus();
  }, [decisions]);
  const measure = () => {
    const area = scroll.current!;
    atEnd.current = area.scrollHeight - area.scrollTop - area.clientHeight < 80;
  };
  return (
    <>
      <div className="scroll thread" ref={scroll} onScroll={measure}>
        {state.failure ? <Failure problem={problemOf(state.failure)} onRetry={() => void session.read()} />
          : state.older && <div className="foot"><button type="button" className="button small" onClick={() => void session.read()}>{t("chat.older")}</button></div>}
        <div className="log" role="log" aria-label={t("chat.conversation")} aria-busy={state.busy || undefined} tabIndex={0}>
          {state.loading ? <Loading rows={4} />
            : !state.entries.length && !state.failure && <p className="welcome muted text">{readable(partner.description) || t("chat.begin", { name: partner.name })}</p>}
          {state.entries.map(({ entry, chain }) => <One key={entry.key} entry={entry} chain={chain} session={session} names={names} onDecided={decided} />)}
        </div>
      </div>
      <Composer session={session} chats={chats} busy={state.busy} connection={state.connection} box={box} autoFocus={autoFocus} onSend={() => (atEnd.current = true)} />
    </>
  );
}

function One({ entry, chain, session, names, onDecided }: { entry: Entry; chain: Chain | null; session: ChatSession; names: Names; onDecided: () => void }) {
  const { t } = useLanguage();
  switch (entry.kind) {
    case "message":
      return <Bubble message={entry} names={names} />;
    case "steps":
      return <Steps steps={entry.steps} names={names} />;
    case "interrupt":
      return (
        <div className={`asked ${entry.state}`}>
          <Approval key={entry.item.approvals ?? 0} item={entry.state === "closed" ? { ...entry.item, status: entry.item.decision ? "decided" : "closed" } : entry.item} skin="minimal" inline
            send={(item, decision, data) => session.decide(chain!, item, decision, data)}
            onDecided={(outcome) => (outcome.ok ? onDecided() : void session.refresh())} />
        </div>
      );
    case "output":
      return (
        <details className="steps" open={entry.open}>
          <summary>{t("chat.result")}</summary>
          <JsonBlock value={entry.value} label={t("chat.result")} />
        </details>
      );
    case "failed":
      return <p className="problem failed" role="alert"><Icon name="error" /><span className="text"><Named text={readable(entry.text)} /></span></p>;
    case "cancelled":
      return <p className="muted">{t("chat.cancelled")}</p>;
  }
}

function Bubble({ message, names }: { message: Message; names: Names }) {
  const { t } = useLanguage();
  const who = message.author && nameOf(message.author, names);
  return (
    <div className={`bubble ${message.own ? "own" : who ? "helper" : ""} ${message.state}`}>
      <span className="sr">{message.own ? t("chat.you") : who ? "" : t("chat.agent")}</span>
      {who && <p className="who"><Icon name="agent" />{who}</p>}
      {message.own ? <Plain text={message.text} /> : <Markdown text={message.text} />}
      {message.files.length > 0 && <ul className="files">{message.files.map((name, index) => <li key={index} className="tag"><Icon name="clip" />{brief(name, 60)}</li>)}</ul>}
      {message.state === "broken" && <p className="hint">{t("chat.broken")}</p>}
    </div>
  );
}

const nameOf = (author: Author, names: Names) =>
  brief(author.skills.length ? author.skills.map((skill) => names(skill.toolId, skill.name)).join(" / ") : author.place.join(" › "), 120);

/** What was done between messages, folded. */
function Steps({ steps, names }: { steps: Step[]; names: Names }) {
  const { t } = useLanguage();
  const running = steps.find((step) => step.state === "running" || step.state === "waiting");
  const failed = steps.some((step) => step.state === "error");
  return (
    <details className="steps">
      <summary>
        {t("chat.steps", { count: steps.length })}
        {running ? <> · <span className={`status ${running.state === "waiting" ? "wait" : "busy"}`}><Icon name={running.state} spin={running.state === "running"} />{brief(names(running.toolId, running.name), 60)}{running.progress && ` · ${brief(running.progress, 80)}`}</span></>
          : failed && <> · <span className="status bad"><Icon name="error" />{t("status.error")}</span></>}
      </summary>
      <ol>
        {steps.map((step) => (
          <li key={step.key}>
            <details>
              <summary><Icon name={step.state} spin={step.state === "running"} /> <span className="mono">{brief(names(step.toolId, step.name), 100)}</span></summary>
              {step.input !== undefined && <JsonBlock value={step.input} label={t("chat.input")} />}
              {step.output !== undefined && step.output !== null && <JsonBlock value={step.output} label={t("chat.result")} />}
            </details>
            {step.error && <p className="problem"><span className="text"><Named text={readable(step.error)} /></span></p>}
          </li>
        ))}
      </ol>
    </details>
  );
}

interface Attachment {
  id: number;
  name: string;
  upload: Upload | null;
  problem: string | null;
}

const NO_FILES: Attachment[] = [];
let attached = 0;

function Composer({ session, chats, busy, connection, box, autoFocus, onSend }: {
  session: ChatSession; chats: Chats; busy: boolean; connection: string; box: React.RefObject<HTMLTextAreaElement | null>; autoFocus: boolean; onSend: () => void;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const [text, setText, forgetText] = useKept(`message ${session.thread}`, "");
  const [files, setFiles, forgetFiles] = useKept<Attachment[]>(`files ${session.thread}`, NO_FILES);
  useUnsaved(() => (text.trim() || files.length ? "kept" : null));
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    if (autoFocus) box.current?.focus();
  }, [box, session, autoFocus]);
  useLayoutEffect(() => {
    if (!box.current) return;
    // While it is measured, its row keeps its height: with another one, all messages above would be laid out twice for each key.
    const row = box.current.parentElement!;
    row.style.height = `${row.offsetHeight}px`;
    box.current.style.height = "";
    box.current.style.height = `${Math.min(box.current.scrollHeight + 2, 180)}px`;
    row.style.height = "";
  }, [box, text]);
  const waiting = files.some((file) => !file.upload && !file.problem);
  const add = (list: Iterable<File>) => {
    for (const file of list) {
      const one: Attachment = { id: ++attached, name: file.name, upload: null, problem: null };
      const set = (change: Partial<Attachment>) => setFiles((old) => old.map((each) => (each.id === one.id ? { ...each, ...change } : each)));
      setFiles((old) => [...old, one]);
      chats.upload(new Blob([file])).then((upload) => set({ upload }), (error: unknown) => set({ problem: problemOf(error).message }));
    }
  };
  const send = () => {
    const said = text.trim();
    if (!said || busy || waiting) return;
    const uploads = files.flatMap(({ name, upload }) => (upload ? [{ name: name.slice(0, 255), upload }] : []));
    onSend();
    if (!session.send(said, uploads)) return;
    forgetText();
    forgetFiles();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const onDrop = (event: DragEvent) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    add(event.dataTransfer.files);
  };
  if (host.readonly) return null;
  return (
    <form className="composer" onSubmit={(event) => { event.preventDefault(); send(); }} onDrop={onDrop} onDragOver={(event) => event.preventDefault()}>
      <p className="hint" role="status">
        {connection === "offline" ? t("chat.offline") : connection === "reconnecting" ? t("chat.reconnecting") : busy ? t("chat.working") : ""}
      </p>
      <p className="sr" role="status">{files.length > 0 && (waiting ? t("chat.uploading") : t("chat.attached", { count: files.filter((file) => file.upload).length }))}</p>
      {files.length > 0 && (
        <ul className="files" aria-label={t("chat.attachments")}>
          {files.map((file) => (
            <li key={file.id} className={`tag ${file.problem ? "bad" : ""}`}>
              <Icon name={file.problem ? "error" : file.upload ? "clip" : "running"} spin={!file.upload && !file.problem} />
              {brief(file.name, 40)}{file.problem && <span role="alert"> · <Named text={brief(file.problem, 120)} /></span>}
              <button type="button" className="button plain square small" aria-label={t("chat.removeFile", { name: brief(file.name, 40) })}
                onClick={() => { setFiles((old) => old.filter((each) => each !== file)); box.current?.focus(); }}><Icon name="close" /></button>
            </li>
          ))}
        </ul>
      )}
      <Refusal text={problem} />
      <div className="compose">
        {host.wants("attach") && (
          <label className="button square attach" title={t("chat.attach")}>
            <Icon name="clip" />
            <input type="file" multiple className="sr" aria-label={t("chat.attach")} accept="image/png,image/jpeg,image/gif,image/webp,text/*,.md,.json,.csv,.yaml,.xml"
              onChange={(event) => { add([...(event.target.files ?? [])]); event.target.value = ""; }} />
          </label>
        )}
        <label className="sr" htmlFor="message">{t("chat.message")}</label>
        <textarea id="message" ref={box} className="input" rows={1} placeholder={t("chat.write")} enterKeyHint="send" value={text}
          onChange={(event) => setText(() => event.target.value)} onKeyDown={onKey}
          onPaste={(event) => event.clipboardData.files.length && add(event.clipboardData.files)} />
        {busy && <button type="button" className="button" onClick={() => session.cancel().then(() => setProblem(null), (error: unknown) => setProblem(problemOf(error).message))}>{t("chat.stop")}</button>}
        <button type="submit" className="button primary" disabled={busy || waiting || !text.trim()}>{t("chat.send")}</button>
      </div>
    </form>
  );
}
