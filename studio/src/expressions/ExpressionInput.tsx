import { createContext, type KeyboardEvent, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Evaluated, Json } from "../api/types";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Named } from "../kit/named";
import { brief, visible } from "../kit/safe";
import { complete, type Completions, isEvaluated, type Mode, type Shape } from "./completion";

export interface Expressions {
  root: Shape;
  /** What the values are of, for people; null without values. */
  origin: string | null;
  evaluate: (of: Json, mode: Mode) => Promise<Evaluated>;
}

/** What expressions of the node that is edited can read; null where none are shown. */
export const ExpressionScope = createContext<Expressions | null>(null);

const WAIT_MS = 300;
/** Options that are shown at once: the list moves with the chosen one, and needs no scrolling. */
const IN_SIGHT = 8;

interface Props {
  mode: Mode;
  value: string;
  /** Attributes of the input: its id, label and error. */
  shared: { id: string; disabled: boolean };
  className?: string;
  onChange: (text: string) => void;
  /** The value that a text stands for: a template can be any JSON. */
  content?: ((text: string) => Json | undefined) | undefined;
}

/** A text with expressions: completion of what they can read, and what they yield beside. */
export function ExpressionInput({ mode, value, shared, className = "", onChange, content }: Props) {
  const { t } = useLanguage();
  const scope = useContext(ExpressionScope);
  const input = useRef<HTMLTextAreaElement>(null);
  const caret = useRef<number | null>(null);
  const listId = useId();
  const [found, setFound] = useState<Completions | null>(null);
  const [chosen, setChosen] = useState(0);
  const offer = (text: string, caret: number, all = false) => {
    setFound(scope && complete(text, caret, mode, scope.root, all));
    setChosen(0);
  };
  const accept = (index: number) => {
    const option = found?.options[index];
    const box = input.current;
    if (!option || !box) return;
    const next = value.slice(0, found.from) + option.insert + value.slice(box.selectionStart);
    caret.current = found.from + option.insert.length;
    onChange(next);
    setFound(null);
  };
  // At once with the new text: keys can follow before the next frame.
  useLayoutEffect(() => {
    if (caret.current !== null) input.current?.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  }, [value]);
  const onKey = (event: KeyboardEvent) => {
    if (event.key === " " && event.ctrlKey && input.current) {
      event.preventDefault();
      return offer(value, input.current.selectionStart, true);
    }
    if (!found) return;
    const last = found.options.length - 1;
    if (event.key === "ArrowDown") setChosen(chosen === last ? 0 : chosen + 1);
    else if (event.key === "ArrowUp") setChosen(chosen === 0 ? last : chosen - 1);
    else if (event.key === "Enter" || event.key === "Tab") accept(chosen);
    else if (event.key === "Escape") setFound(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const first = found ? Math.max(0, Math.min(chosen - 3, found.options.length - IN_SIGHT)) : 0;
  return (
    <div className="expression">
      <div className="suggest">
        <textarea ref={input} className={`input param ${className}`} rows={Math.min(10, Math.max(1, value.split("\n").length))} {...shared} spellCheck={false} value={value}
          aria-autocomplete="list" aria-controls={found ? listId : undefined} aria-activedescendant={found ? `${listId}-${chosen}` : undefined}
          onChange={(event) => { onChange(event.target.value); offer(event.target.value, event.target.selectionStart); }} onKeyDown={onKey} onBlur={() => setFound(null)} />
        {found && (
          <ul className="options" role="listbox" id={listId} aria-label={t("expression.completions")}>
            {found.options.slice(first, first + IN_SIGHT).map((option, place) => (
              // The pointer must not take the focus: the list closes when the input loses it.
              <li key={`${option.insert} ${place}`} id={`${listId}-${first + place}`} role="option" aria-selected={first + place === chosen} aria-posinset={first + place + 1}
                aria-setsize={found.options.length} onPointerDown={(event) => { event.preventDefault(); accept(first + place); }}>
                <span className="clip mono">{brief(option.label, 60)}</span>
                <span className="clip hint">{brief(option.detail, 40)}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
      <span className="sr" role="status">{found ? t("expression.found", { count: found.options.length }) : ""}</span>
      {scope && isEvaluated(value, mode) && <Result scope={scope} text={value} of={content?.(value) ?? value} mode={mode} />}
    </div>
  );
}

/** What the text yields with the values of the scope, by the server's own evaluation. */
function Result({ scope, text, of, mode }: { scope: Expressions; text: string; of: Json; mode: Mode }) {
  const { t } = useLanguage();
  const { evaluate, origin } = scope;
  const [shown, setShown] = useState<{ text: string; of: Evaluated } | null>(null);
  const latest = useRef(of);
  latest.current = of;
  useEffect(() => {
    if (origin === null) return;
    let live = true;
    const show = (found: Evaluated) => live && setShown({ text, of: found });
    const timer = setTimeout(() => void evaluate(latest.current, mode).then(show, () => live && setShown(null)), WAIT_MS);
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [evaluate, origin, text, mode]);
  const value = useMemo(() => (shown ? textOf(shown.of.value) : ""), [shown]);
  if (origin === null) return <p className="hint">{t("expression.noValues")}</p>;
  if (!shown) return null;
  const { error } = shown.of;
  return (
    <div className={`result${shown.text === text ? "" : " stale"}`} title={origin}>
      {error
        ? <p className="hint"><Icon name="error" /> {error.column === null ? "" : `${t("expression.column", { n: error.column })} `}<Named text={brief(error.message, 300)} /></p>
        : <output className="mono text">= {visible(brief(value, 300))}</output>}
    </div>
  );
}

const textOf = (value: Json | undefined): string => (typeof value === "string" ? value : JSON.stringify(value ?? null));
