import { useMemo } from "react";
import { Skills } from "../api/skills";
import { useHost } from "../elements/context";
import { LanguageContext, useLanguage } from "../i18n/context";
import de from "../skill/de.json";
import en from "../skill/en.json";
import { ResourceList } from "./ResourceList";

/** The skills that the caller may use or manage. */
export default function SkillsPage() {
  const { client } = useHost();
  const language = useLanguage();
  const extended = useMemo(() => language.extend({ en, de }), [language]);
  const props = useMemo(() => {
    const skills = new Skills(client);
    return {
      load: (query: { q?: string; status?: string }, token: string | null) => skills.page(query, token),
      create: (name: string) => skills.create(name),
    };
  }, [client]);
  return (
    <LanguageContext value={extended}>
      <ResourceList kind="skills" placeOf={(id) => ({ page: "skill", id })} {...props} />
    </LanguageContext>
  );
}
