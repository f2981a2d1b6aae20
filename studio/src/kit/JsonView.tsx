import { useState } from "react";
import { useLanguage } from "../i18n/context";
import { Icon } from "./icons";
import { Exact } from "./json";
import { CopyButton } from "./kit";
import { visible } from "./safe";

const LONG = 2_000;
const MANY = 60;

interface Truncated {
  truncated: true;
  bytes: number;
  preview: string;
  url?: string;
}

const isTruncated = (value: unknown): value is Truncated =>
  typeof value === "object" && value !== null && (value as Truncated).truncated === true && "preview" in value;

/** A JSON value as a tree that folds. Everything is text: no markup, link or image comes from the value. */
export function JsonBlock({ value: given, label, open = 2, load }: {
  value: unknown; label: string; open?: number;
  /** Reads the whole of a value that the server has cut. */
  load?: (url: string) => Promise<unknown>;
}) {
  const { t } = useLanguage();
  const [whole, setWhole] = useState<{ of: unknown; value: unknown } | null>(null);
  const value = whole && whole.of === given ? whole.value : given;
  const show = (url: string) => void load?.(url).then((found) => setWhole({ of: given, value: found }), () => undefined);
  return (
    <div className="block" role="group" aria-label={label} tabIndex={0}>
      <CopyButton text={() => JSON.stringify(value, null, 2)} />
      <div className="json">
        {isTruncated(value) ? (
          <>
            <span className="string">{visible(String(value.preview))}</span>
            <p className="hint">{t("common.truncated", { bytes: value.bytes })}</p>
            {load && value.url && <button type="button" className="button small" onClick={() => show(value.url!)}>{t("common.showAll")}</button>}
          </>
        ) : (
          <Value value={value} depth={0} open={open} />
        )}
      </div>
    </div>
  );
}

function Value({ value, name, depth, open }: { value: unknown; name?: string; depth: number; open: number }) {
  const key = name === undefined ? null : <span className="key">{visible(name)}: </span>;
  if (value === null || value instanceof Exact || typeof value === "number" || typeof value === "boolean") {
    return <>{key}<span className="atom">{String(value)}</span></>;
  }
  if (typeof value === "string") return <>{key}<Text text={value} /></>;
  if (typeof value !== "object") return <>{key}<span className="atom">–</span></>;
  return <Branch value={value} label={key} depth={depth} open={open} />;
}

function Text({ text }: { text: string }) {
  const { t } = useLanguage();
  const [all, setAll] = useState(false);
  const shown = all || text.length <= LONG ? text : text.slice(0, LONG);
  return (
    <>
      <span className="string">“{visible(shown)}{shown.length < text.length ? "…" : "”"}</span>
      {shown.length < text.length && (
        <button type="button" className="button plain small" onClick={() => setAll(true)}>{t("common.showAll")}</button>
      )}
    </>
  );
}

function Branch({ value, label, depth, open }: { value: object; label: React.ReactNode; depth: number; open: number }) {
  const { t } = useLanguage();
  const entries = Object.entries(value);
  const [unfolded, setUnfolded] = useState(depth < open && entries.length <= MANY);
  const [shown, setShown] = useState(MANY);
  const list = Array.isArray(value);
  if (!entries.length) return <>{label}<span className="atom">{list ? "[]" : "{}"}</span></>;
  return (
    <>
      <button type="button" className="fold" aria-expanded={unfolded} onClick={() => setUnfolded(!unfolded)}>
        <span style={{ display: "inline-block", rotate: unfolded ? "90deg" : "0deg" }}><Icon name="chevron" /></span> {label}
        <span className="count">{list ? `[${entries.length}]` : `{${entries.length}}`}</span>
      </button>
      {unfolded && (
        <ul>
          {entries.slice(0, shown).map(([name, one]) => (
            <li key={name}><Value value={one} name={name} depth={depth + 1} open={open} /></li>
          ))}
          {entries.length > shown && (
            <li>
              <button type="button" className="button plain small" onClick={() => setShown(shown + 500)}>
                {t("common.moreRows", { count: entries.length - shown })}
              </button>
            </li>
          )}
        </ul>
      )}
    </>
  );
}
