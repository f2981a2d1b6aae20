import { type FormEvent, useEffect, useState } from "react";
import type { Page } from "../api/api";
import { type Place, problemOf, useChoice, useHost, useIsShown, useKept, useUnsaved } from "../elements/context";
import { usePages } from "../elements/paging";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, Empty, Failure, Loading, type Problem, Status, VirtualRows } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief } from "../kit/safe";
import { PlaceLink } from "./parts";

export interface Row {
  id: number;
  name: string;
  description: string | null;
  status: string;
  updatedAt?: string;
  hasUnpublishedChanges?: boolean;
  accessConfig?: { ownerEmail?: string | null };
}

interface Props {
  /** Also the beginning of the keys of the texts. */
  kind: "workflows" | "skills";
  load: (query: { q?: string; status?: string }, pageToken: string | null) => Promise<Page<Row>>;
  placeOf: (id: string) => Place;
  create: (name: string) => Promise<Row>;
}

/** The workflows or skills that the caller may use or manage; each leads to its page. */
export function ResourceList({ kind, load: page, placeOf, create }: Props) {
  const { t, ago, dateTime } = useLanguage();
  const host = useHost();
  const mayCreate = !host.readonly && host.wants("create");
  const [creating, setCreating] = useState(false);
  const [search, setSearch] = useChoice("search", "");
  const [query, setQuery] = useState(search);
  useEffect(() => {
    const timer = setTimeout(() => setQuery(search), search ? 200 : 0);
    return () => clearTimeout(timer);
  }, [search]);
  const [isDeleted, setDeleted] = useChoice("deleted", false);
  const list = usePages(`${isDeleted} ${query}`, (pageToken) => page({ ...(query ? { q: query } : {}), ...(isDeleted ? { status: "deleted" } : {}) }, pageToken), (one) => String(one.id), [kind.slice(0, -1)], 600);
  return (
    <div className="page">
      <div className="head">
        <h1>{t(`${kind}.title`)}</h1>
        <div style={{ width: 240 }}>
          <label className="sr" htmlFor="search">{t(`${kind}.search`)}</label>
          <input id="search" type="search" className="input" placeholder={t(`${kind}.search`)} value={search} onChange={(event) => setSearch(event.target.value)} />
        </div>
        <button type="button" className="button" aria-pressed={isDeleted} onClick={() => setDeleted(!isDeleted)}>{t("status.deleted")}</button>
        {mayCreate && <button type="button" className="button primary" onClick={() => setCreating(true)}><Icon name="plus" />{t(`${kind}.new`)}</button>}
      </div>
      {creating && <NewResource kind={kind} placeOf={placeOf} create={create} onClose={() => setCreating(false)} />}
      {list.problem && !list.rows.length ? <Failure problem={list.problem} onRetry={list.reload} />
        : list.loading ? <Loading rows={8} />
        : !list.rows.length ? <Empty icon={kind} title={t(query ? "list.noMatch" : isDeleted ? "list.noneDeleted" : `${kind}.empty`)} {...(query || isDeleted ? {} : { hint: t(mayCreate ? `${kind}.emptyMake` : `${kind}.emptyHint`) })}
          action={!query && !isDeleted && mayCreate ? <button type="button" className="button" onClick={() => setCreating(true)}><Icon name="plus" />{t(`${kind}.new`)}</button> : undefined} />
        : (
          <>
            <div className="columns" aria-hidden="true">
              <span>{t("workflows.status")}</span><span>{t("workflows.name")}</span><span>{t("workflows.owner")}</span><span /><span className="end">{t("workflows.updated")}</span><span />
            </div>
            <VirtualRows count={list.rows.length} height={47} label={t(`${kind}.title`)} pages={list} row={(index) => {
              const one = list.rows[index]!;
              return (
                <div role="listitem" key={one.id} style={{ height: 47 }}>
                  <PlaceLink to={placeOf(String(one.id))} className="line" label={`${brief(one.name, 120)}: ${t(`${kind}.open`)}`}>
                    <span className="c-status"><Status value={one.status} /></span>
                    <span className="c-target" style={{ minWidth: 0 }}>
                      <span className="title clip" style={{ display: "block" }}>{brief(one.name, 160)}</span>
                      <span className="sub clip" style={{ display: "block", fontFamily: "var(--font)" }}>{brief(one.description ?? "", 160)}</span>
                    </span>
                    <span className="c-by clip muted">{brief(one.accessConfig?.ownerEmail ?? "", 80)}</span>
                    <span className="c-origin">{one.hasUnpublishedChanges && <span className="tag wait" title={t("workflows.unpublished")}><Icon name="pending" /><span className="sr">{t("workflows.unpublished")}</span></span>}</span>
                    <span className="c-started end muted num" title={one.updatedAt ? dateTime(one.updatedAt) : ""}>{one.updatedAt ? ago(one.updatedAt) : ""}</span>
                    <span className="c-duration end muted"><Icon name="chevron" /></span>
                  </PlaceLink>
                </div>
              );
            }} />
          </>
        )}
    </div>
  );
}

/** Asks for a name, creates the workflow or skill, and shows its page. */
function NewResource({ kind, placeOf, create: make, onClose }: Pick<Props, "kind" | "placeOf" | "create"> & { onClose: () => void }) {
  const { t } = useLanguage();
  const host = useHost();
  const [name, setName, forgetName] = useKept(`${kind}.new`, "");
  useUnsaved(() => (name.trim() ? "kept" : null));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const isShown = useIsShown();
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const made = await make(name.trim());
      forgetName();
      if (!isShown()) return;
      onClose();
      host.navigate(placeOf(String(made.id)));
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={t(`${kind}.new`)} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={() => { forgetName(); onClose(); }}>{t("common.cancel")}</button>
        <button type="submit" form="new-resource" className="button primary" disabled={busy || !name.trim()}>{t("workflows.create")}</button>
      </>
    }>
      <form id="new-resource" className="field" onSubmit={(event) => void create(event)}>
        <label htmlFor="new-name">{t(`${kind}.newName`)}</label>
        <input id="new-name" className="input" value={name} maxLength={200} autoFocus required onChange={(event) => setName(() => event.target.value)} />
        <Refusal text={problem?.message} />
      </form>
    </Dialog>
  );
}
