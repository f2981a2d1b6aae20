import { useState } from "react";
import type { Member } from "../../api/people";
import type { Delegation, Erasure } from "../../api/records";
import type { JsonObject } from "../../api/types";
import { ApiError } from "../../api/client";
import { problemOf, useChanges, useHost, useLoaded } from "../../elements/context";
import { Dialog } from "../../kit/kit";
import { Refusal } from "../../kit/named";
import { brief } from "../../kit/safe";
import { PlaceLink } from "../parts";
import { type Context, isAdmin, memberName } from "./collection";
import { nameOf, PersonChoice, useNames } from "./PersonChoice";

/** Below a member: the delegations from and to this person, and the person's data. */
export function MemberExtra({ one, context, onRemoved }: { one: Member; context: Context; onRemoved: () => void }) {
  const { me } = context;
  const concerned = me.userId === one.userId || isAdmin(me);
  return (
    <>
      {me.scopes.includes("workflows:read") && <Delegations of={one} context={context} />}
      {concerned && <PersonalData of={one} context={context} onErased={onRemoved} />}
    </>
  );
}

function Delegations({ of, context }: { of: Member; context: Context }) {
  const { t, records, dateTime } = context;
  const { value, reload } = useLoaded(of.userId, async () => {
    const rows = await records.all<Delegation>("delegations");
    return { rows: rows.filter((row) => row.from === of.userId || row.to === of.userId) };
  });
  useChanges(["delegation"], reload);
  useNames((value?.rows ?? []).flatMap((row) => [row.from, row.to]), context);
  const name = (userId: string) => (userId === of.userId ? brief(memberName(of), 80) : nameOf(userId, context));
  return (
    <div className="section">
      <h3>{t("nav.delegations")}</h3>
      {value && !value.rows.length && <p className="muted">{t("delegations.none")}</p>}
      <ul className="stack">
        {value?.rows.map((row) => (
          <li key={row.id}>
            <PlaceLink to={{ page: "administration", section: "delegations", id: row.id }}>{t("delegations.fromTo", { from: name(row.from), to: name(row.to) })}</PlaceLink>
            {row.until && <span className="hint"> · {dateTime(row.until)}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What is stored about a person: to download, and to erase. */
function PersonalData({ of, context, onErased }: { of: Member; context: Context; onErased: () => void }) {
  const { t, me, records } = context;
  const host = useHost();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [asking, setAsking] = useState(false);
  const [running, setRunning] = useState<Erasure["progress"] | null>(null);
  const download = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const address = URL.createObjectURL(await records.exportOf(of.userId));
      const link = Object.assign(document.createElement("a"), { href: address, download: `${of.userId}.zip` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } catch (error) {
      setProblem(problemOf(error).message);
    }
    setBusy(false);
  };
  const erase = async (transferTo: string) => {
    setAsking(false);
    setProblem(null);
    try {
      // The same request again joins the erasure, and waits for its end for a moment.
      for (let found = await records.erase(of.userId, transferTo); found.status === "running"; found = await records.erase(of.userId, transferTo)) setRunning(found.progress);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) {
        setRunning(null);
        return setProblem(`${problemOf(error).message}${unmanaged(error)}`);
      }
    }
    onErased();
  };
  if (!me.scopes.includes("members:read")) return null;
  return (
    <div className="section">
      <h3>{t("members.data")}</h3>
      <Refusal text={problem} />
      {running ? (
        <div role="status" className="stack">
          <span>{t("members.erasing")}</span>
          <progress aria-label={t("members.erasing")} max={running.total} value={running.done} />
        </div>
      ) : (
        <div className="row wrap">
          <button type="button" className="button" disabled={busy} onClick={() => void download()}>{t(busy ? "members.exporting" : "members.export")}</button>
          {!host.readonly && host.wants("manage") && me.scopes.includes("members:write") && (
            <button type="button" className="button danger" onClick={() => setAsking(true)}>{t("members.erase")}</button>
          )}
        </div>
      )}
      {asking && <EraseDialog of={of} context={context} onClose={() => setAsking(false)} onErase={(to) => void erase(to)} />}
    </div>
  );
}

/** The resources that nobody could manage, of a 409 `unmanaged`. */
function unmanaged(error: unknown): string {
  const resources = error instanceof ApiError && Array.isArray(error.info.resources) ? (error.info.resources as JsonObject[]) : [];
  return resources.length ? `: ${resources.slice(0, 10).map((one) => `${one.name ?? one.type} (${one.id})`).join(", ")}` : "";
}

/** Asks for the successor, and for the user id, so that nobody is erased by a slip. */
function EraseDialog({ of, context, onClose, onErase }: { of: Member; context: Context; onClose: () => void; onErase: (transferTo: string) => void }) {
  const { t } = context;
  const [to, setTo] = useState("");
  const [typed, setTyped] = useState("");
  return (
    <Dialog title={t("members.eraseAsk", { name: brief(memberName(of), 80) })} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={onClose}>{t("common.cancel")}</button>
        <button type="button" className="button danger solid" disabled={typed !== of.userId} onClick={() => onErase(to)}>{t("members.erase")}</button>
      </>
    }>
      <p className="muted">{t("members.eraseHint")}</p>
      <div className="field">
        <label htmlFor="erase-to">{t("members.transferTo")}</label>
        <PersonChoice id="erase-to" none={t("members.transferToNobody")} without={of.userId} value={to} context={context} onChange={setTo} />
      </div>
      <div className="field">
        <label htmlFor="erase-who">{t("members.eraseType", { id: brief(of.userId, 120) })}</label>
        <input id="erase-who" className="input mono" autoComplete="off" autoFocus spellCheck={false} value={typed} onChange={(event) => setTyped(event.target.value)} />
      </div>
    </Dialog>
  );
}
