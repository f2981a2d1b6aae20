import { type ComponentType, useMemo } from "react";
import type { Caller } from "../../api/types";
import { useHost, useLoaded } from "../../elements/context";
import { LanguageContext, useLanguage } from "../../i18n/context";
import { Empty, Failure, Loading } from "../../kit/kit";
import { AuditPage } from "./AuditPage";
import type { Collection } from "./collection";
import { CollectionPage } from "./CollectionPage";
import { connections } from "./connections";
import auditDe from "./audit.de.json";
import auditEn from "./audit.en.json";
import de from "./de.json";
import en from "./en.json";
import { delegations } from "./delegations";
import { hooks } from "./hooks";
import { groups, members, tokens } from "./people";
import { policies } from "./policies";
import { SchedulesPage } from "./SchedulesPage";
import { ToolsPage } from "./ToolsPage";
import { UsagePage } from "./UsagePage";

export interface AdministrationProps {
  section: string;
  recordId?: string;
}

const COLLECTIONS: Record<string, Collection<any>> = { connections, members, groups, delegations, tokens, hooks, policies };
const PAGES: Record<string, ComponentType<{ me: Caller }>> = { tools: ToolsPage, schedules: SchedulesPage, usage: UsagePage, audit: AuditPage };

/** One section of the administration of an organization, with what the caller may see and change. */
export default function AdministrationPage(props: AdministrationProps) {
  const language = useLanguage();
  const extended = useMemo(() => language.extend({ en: { ...en, ...auditEn }, de: { ...de, ...auditDe } }), [language]);
  return (
    <LanguageContext value={extended}>
      <Section {...props} />
    </LanguageContext>
  );
}

function Section({ section, recordId }: AdministrationProps) {
  const { t } = useLanguage();
  const { api } = useHost();
  const { value: me, problem, reload } = useLoaded("me", () => api.me());
  if (problem) return <Failure isPage problem={problem} onRetry={reload} />;
  if (!me) return <Loading rows={8} />;
  const of = Object.hasOwn(COLLECTIONS, section) ? COLLECTIONS[section] : undefined;
  if (of) return <CollectionPage key={section} of={of} me={me} section={section} recordId={recordId} />;
  const Page = Object.hasOwn(PAGES, section) ? PAGES[section] : undefined;
  return Page ? <Page me={me} /> : <Empty icon="error" title={t("page.notFound")} />;
}
