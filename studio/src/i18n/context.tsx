import { createContext, useContext } from "react";
import { language, type Language } from "./texts";

export const LanguageContext = createContext<Language>(language("en"));
export const useLanguage = () => useContext(LanguageContext);
