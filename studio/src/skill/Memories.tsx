import { type FormEvent, useCallback, useEffect, useRef, useState } from "react";
import type { Memory, SkillRecord, Skills } from "../api/skills";
import { problemOf, useKept, useLatest, useUnsaved } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, Empty, Loading, type Problem } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief, readable } from "../kit/safe";

/** What the skill remembers, of all end users or of one: to find, add, change and delete. */
export function Memories({ skill, skills, mayEdit }: { skill: SkillRecord; skills: Skills; mayEdit: boolean }) {
  const { t } = useLanguage();
  const [query, setQuery] = useState("");
  const [userId, setUserId] = useKept(`memory of ${skill.id}: user`, "");
  const [text, setText, forgetText] = useKept(`memory of ${skill.id}`, "");
  useUnsaved(() => (text.trim() ? "kept" : null));
  const [state, setState] = useState<{ rows: Memory[]; next: string | null } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const begin = useLatest();
  const load = useCallback(async (token: string | null = null) => {
    const isLatest = begin();
    try {
      const found = query.trim() ? { rows: await skills.findMemories(skill.id, query.trim(), userId), next: null } : await skills.memories(skill.id, userId, token);
      if (!isLatest()) return;
      setState((old) => ({ rows: token && old ? [...old.rows, ...found.rows] : found.rows, next: found.next }));
      setProblem(null);
    } catch (error) {
      if (isLatest()) setProblem(problemOf(error));
    }
  }, [begin, skill.id, skills, query, userId]);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const timer = setTimeout(() => void load(), query || userId ? 200 : 0);
    return () => clearTimeout(timer);
  }, [load, query, userId]);
  /** Whether it was done. */
  const act = async (work: Promise<unknown>): Promise<boolean> => {
    try {
      await work;
    } catch (error) {
      setProblem(problemOf(error));
      return false;
    }
    await latest.current(); // of what is searched now
    return true;
  };
  const add = (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    void act(skills.remember(skill.id, text.trim(), userId).then(forgetText));
  };
  return (
    <div className="scroll pad stack">
      <div className="row wrap fields">
        <div className="field grow">
          <label htmlFor="memory-query">{t("memories.search")}</label>
          <input id="memory-query" type="search" className="input" value={query} onChange={(event) => setQuery(event.target.value)} />
        </div>
        <div className="field">
          <label htmlFor="memory-user">{t("memories.user")}</label>
          <input id="memory-user" className="input" maxLength={255} value={userId} onChange={(event) => setUserId(() => event.target.value)} />
        </div>
      </div>
      {mayEdit && (
        <form className="row wrap fields" onSubmit={add}>
          <div className="field grow">
            <label htmlFor="memory-new">{t("memories.new")}</label>
            <input id="memory-new" className="input" value={text} onChange={(event) => setText(() => event.target.value)} />
          </div>
          <button type="submit" className="button" disabled={!text.trim()}><Icon name="plus" />{t("memories.add")}</button>
        </form>
      )}
      <Refusal text={problem?.message} />
      {!state ? !problem && <Loading rows={4} />
        : !state.rows.length ? <Empty icon="skills" title={t(query || userId ? "list.noMatch" : "memories.empty")} {...(query || userId ? {} : { hint: t("memories.emptyHint") })} />
        : (
          <ul className="memories" aria-label={t("skill.memories")}>
            {state.rows.map((one) => <Row key={one.id} memory={one} mayEdit={mayEdit} onChange={(next) => act(skills.changeMemory(skill.id, one.id, next))} onForget={() => act(skills.forget(skill.id, one.id))} />)}
          </ul>
        )}
      {state?.next && <button type="button" className="button small" onClick={() => void load(state.next)}>{t("common.showAll")}</button>}
    </div>
  );
}

function Row({ memory, mayEdit, onChange, onForget }: { memory: Memory; mayEdit: boolean; onChange: (text: string) => Promise<boolean>; onForget: () => Promise<boolean> }) {
  const { t, ago, dateTime } = useLanguage();
  const [text, setText, cancel] = useKept<string | null>(`memory ${memory.id}`, null);
  useUnsaved(() => (text !== null && text !== memory.memory ? "kept" : null));
  const isOpen = text !== null;
  const wasOpen = useRef(isOpen);
  const box = useRef<HTMLTextAreaElement>(null);
  const edit = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isOpen === wasOpen.current) return;
    wasOpen.current = isOpen;
    (isOpen ? box : edit).current?.focus();
  }, [isOpen]);
  const [asking, setAsking] = useState(false);
  const name = brief(memory.memory, 60);
  return (
    <li className="card pad">
      {text === null ? <p className="text">{readable(memory.memory)}</p> : (
        <form className="stack" onSubmit={(event) => { event.preventDefault(); void onChange(text).then((isDone) => isDone && cancel()); }}>
          <textarea className="input" aria-label={t("memories.text")} ref={box} value={text} onChange={(event) => setText(() => event.target.value)} />
          <div className="row">
            <button type="submit" className="button primary small" disabled={!text.trim()}>{t("admin.save")}</button>
            <button type="button" className="button small" onClick={cancel}>{t("common.cancel")}</button>
          </div>
        </form>
      )}
      <div className="row between">
        <time className="hint num" dateTime={memory.updatedAt} title={dateTime(memory.updatedAt)}>{ago(memory.updatedAt)}</time>
        {mayEdit && text === null && (
          <div className="row">
            <button ref={edit} type="button" className="button plain small" aria-label={`${t("admin.edit")}: ${name}`} onClick={() => setText(() => memory.memory)}>{t("admin.edit")}</button>
            <button type="button" className="button plain small" aria-label={`${t("memories.forget")}: ${name}`} onClick={() => setAsking(true)}>{t("memories.forget")}</button>
          </div>
        )}
      </div>
      {asking && (
        <Dialog title={t("memories.forgetAsk")} onClose={() => setAsking(false)} actions={
          <>
            <button type="button" className="button" onClick={() => setAsking(false)}>{t("common.cancel")}</button>
            <button type="button" className="button danger solid" onClick={() => { setAsking(false); void onForget(); }}>{t("memories.forget")}</button>
          </>
        }><p className="muted text">{name}</p></Dialog>
      )}
    </li>
  );
}
