import { type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { problemOf } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "./icons";
import type { Problem, Reading } from "./kit";
import { Refusal } from "./named";
import { brief, visible } from "./safe";

export interface Option {
  /** What tells it from the others. */
  key: string;
  title: string;
  /** What helps to tell it from those of the same title. */
  hint?: string;
  /** Why what the value refers to is not there. */
  missing?: string;
}

/** Reads the options for a text. */
export type Find = (text: string) => Promise<Option[]>;

interface Props {
  /** Attributes of the input: its id, whether it is disabled, its error. */
  shared: { id: string; disabled: boolean };
  options: Option[];
  /** Finds options beside `options`, of which there are more than could be read. */
  find?: Find;
  /** Of the options: while they are read, a text that fits none yet can fit one of them. */
  reading?: Reading | undefined;
  /** What is chosen, as it is shown; it need not be among the options. */
  chosen: Option[];
  /** Several can be chosen. */
  many: boolean;
  /** A choice can be taken back. */
  canClear: boolean;
  /** The option that a text stands for that is none of these; null if it stands for nothing. Without it, only the options count. */
  other?: (text: string) => Option | null;
  onChange: (keys: string[]) => void;
}

/** Options that are rendered at once; further ones are found by the search. */
const MOST_SHOWN = 60;

/** Those that have each word in their title or hint; one whose title begins with the text comes first. */
export function matching(options: Option[], text: string): Option[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return options;
  const found = options.filter((one) => words.every((word) => `${one.title} ${one.hint ?? ""}`.toLowerCase().includes(word)));
  const isFirst = (one: Option) => one.title.toLowerCase().startsWith(words.join(" "));
  return [...found.filter(isFirst), ...found.filter((one) => !isFirst(one))];
}

/** How long nothing is typed before a text is searched, in milliseconds. */
const PAUSE_MS = 200;

interface Found {
  text: string;
  options: Option[];
  problem: Problem | null;
  retry: () => void;
}

/** What was found for the last text that was searched; while another one is typed, it is that of before. */
export function useFound(find: Find | undefined, text: string): Found | null {
  const [found, setFound] = useState<Omit<Found, "retry"> | null>(null);
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(find);
  latest.current = find;
  const wanted = find ? text.trim() : "";
  useEffect(() => {
    if (!wanted) return setFound(null);
    let live = true;
    const keep = (options: Option[], problem: Problem | null) => void (live && setFound({ text: wanted, options, problem }));
    const search = () => void latest.current?.(wanted).then((options) => keep(options, null), (error: unknown) => keep([], problemOf(error)));
    const timer = setTimeout(search, PAUSE_MS);
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [wanted, attempt]);
  const retry = () => {
    setFound(null);
    setAttempt(attempt + 1);
  };
  return found && { ...found, retry };
}

/** A choice out of many, by search (ARIA 1.2, combobox with a list). What was chosen of several stands above the search. */
export function Picker({ shared, options: known, find, reading, chosen, many, canClear, other, onChange }: Props) {
  const { t } = useLanguage();
  const listId = useId();
  const box = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState<string | null>(null); // null: nothing is typed, and the list is closed
  // The field was left before the options were read: then what was typed is taken, or is none of them.
  const [isLeft, setLeft] = useState(false);
  const [active, setActive] = useState(0);
  const taken = new Set(chosen.map((one) => one.key));
  const single = many ? undefined : chosen[0];
  const isTyped = text !== null;
  const isOpen = isTyped && !isLeft;
  // The text of a choice that was not changed yet is no search.
  const search = isTyped && text !== single?.title ? text : "";
  const searched = useFound(isTyped ? find : undefined, search);
  const isSearched = find === undefined || searched?.text === search.trim();
  const failed = reading?.problem ? reading : isSearched && searched?.problem ? searched : null;
  const isSearching = search.trim() !== "" && !failed && (reading?.isDone === false || !isSearched);
  // What the server has found for the text need not have each word of it.
  const further = (isSearching ? matching(searched?.options ?? [], search) : (searched?.options ?? [])).filter((one) => !known.some((other) => other.key === one.key));
  const options = [...known, ...further];
  const local = isTyped ? matching(many ? options.filter((one) => !taken.has(one.key)) : options, search) : [];
  const found = isTyped ? [...local, ...further.filter((one) => !local.includes(one) && !(many && taken.has(one.key)))] : [];
  const typed = search.trim() ? (other?.(search.trim()) ?? null) : null;
  const extra = typed && !taken.has(typed.key) && !options.some((one) => one.key === typed.key) ? [typed] : [];
  const shown = [...found.slice(0, MOST_SHOWN), ...extra];
  const at = Math.min(active, Math.max(0, shown.length - 1));
  const full = search.trim() ? (found.find((one) => one.title.toLowerCase() === search.trim().toLowerCase()) ?? extra[0]) : undefined;
  const open = (next: string) => {
    setLeft(false);
    setText(next);
    setActive(next === single?.title ? Math.max(0, options.findIndex((one) => one.key === single.key)) : 0);
  };
  const close = () => {
    setLeft(false);
    setText(null);
  };
  const take = (option: Option) => {
    onChange(many ? [...chosen.map((one) => one.key), option.key] : [option.key]);
    if (many) open("");
    else close();
  };
  const remove = (key: string) => {
    onChange(chosen.filter((one) => one.key !== key).map((one) => one.key));
    close();
    input.current?.focus();
  };
  const takeFull = (option: Option) => {
    onChange(many ? [...chosen.map((one) => one.key), option.key] : [option.key]);
    close();
  };
  // What was typed in full is taken, as in a plain input.
  const leave = () => {
    if (!isOpen) return;
    if (full) return takeFull(full);
    if (search.trim() && (isSearching || failed)) return setLeft(true);
    if (!text.trim() && single && canClear) onChange([]);
    close();
  };
  useEffect(() => {
    if (isLeft && !isSearching && !failed && full) takeFull(full);
  });
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!isOpen) open(single?.title ?? "");
      else if (shown.length) setActive((at + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % shown.length);
    } else if (event.key === "Enter" && isOpen) {
      const option = shown[at];
      if (option && (search || active || !many)) take(option);
      else if (!isSearching) close();
    } else if (event.key === "Escape" && isOpen) close();
    else if (event.key === "Backspace" && many && !text && chosen.length) return remove(chosen.at(-1)!.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  // Nothing is said to match before all is read.
  const isListed = isOpen && (shown.length > 0 || !failed);
  useLayoutEffect(() => {
    if (isOpen) box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [isOpen, at, search]);
  return (
    <div className="picker" ref={box}>
      {many && chosen.length > 0 && (
        <ul className="taken">
          {chosen.map((one) => (
            <li key={one.key} className="row between">
              <span><Title of={one} /></span>
              <button type="button" className="button plain small square" disabled={shared.disabled} aria-label={t("pick.remove", { name: brief(one.title, 60) })} onClick={() => remove(one.key)}><Icon name="close" /></button>
            </li>
          ))}
        </ul>
      )}
      <div className="row">
        <div className="suggest grow">
          <input ref={input} {...shared} className="input" type="text" role="combobox" autoComplete="off" spellCheck={false} aria-autocomplete="list" aria-haspopup="listbox" aria-expanded={isListed}
            aria-controls={isListed ? listId : undefined} aria-activedescendant={isOpen && shown.length ? `${listId}-${at}` : undefined}
            placeholder={t(many ? (other ? "pick.addOther" : "pick.add") : "form.choose")} value={isTyped ? text : single ? visible(single.title) : ""}
            onClick={() => !isOpen && open(single?.title ?? "")} onFocus={(event) => { setLeft(false); event.target.select(); }} onChange={(event) => open(event.target.value)} onKeyDown={onKey} onBlur={leave} />
          {isListed && (
            <ul className="options" role="listbox" id={listId} aria-label={t("pick.options")}>
              {shown.map((option, index) => (
                // The pointer must not take the focus: the list closes when the input loses it.
                <li key={option.key} id={`${listId}-${index}`} role="option" aria-selected={index === at} onPointerDown={(event) => event.preventDefault()} onClick={() => take(option)}>
                  <span className="clip">{option === extra[0] ? t("pick.take", { text: brief(option.title, 80) }) : brief(option.title, 80)}</span>
                  {option.hint && <span className="clip hint">{brief(option.hint, 80)}</span>}
                </li>
              ))}
              {!shown.length && <li className="hint" role="option" aria-disabled="true" aria-selected="false">{t(isSearching ? "pick.searching" : "builder.nothing")}</li>}
              {found.length > MOST_SHOWN && <li className="hint" role="option" aria-disabled="true" aria-selected="false">{find ? t("pick.narrow") : t("builder.narrow", { count: found.length - MOST_SHOWN })}</li>}
            </ul>
          )}
        </div>
        {single && canClear && <button type="button" className="button plain square" disabled={shared.disabled} aria-label={t("pick.remove", { name: brief(single.title, 60) })} onClick={() => remove(single.key)}><Icon name="close" /></button>}
      </div>
      {failed?.problem && (
        <div className="row wrap">
          <Refusal about={t("pick.failed")} text={failed.problem.message} />
          <button type="button" className="button small" onClick={() => { failed.retry(); input.current?.focus(); }}>{t("common.retry")}</button>
        </div>
      )}
      {isLeft && !failed && <p className="problem warning" role="status"><Icon name="waiting" /><span className="text">{isSearching ? t("pick.searching") : t("pick.unknown", { text: brief(search.trim(), 80) })}</span></p>}
      <span className="sr" role="status">{isOpen && search && !isSearching && !failed ? t("pick.found", { count: found.length }) : ""}</span>
    </div>
  );
}

function Title({ of }: { of: Option }) {
  return (
    <>
      {brief(of.title, 80)}
      {of.missing ? <span className="gone"> · {of.missing}</span> : of.hint && <span className="hint"> · {brief(of.hint, 80)}</span>}
    </>
  );
}
