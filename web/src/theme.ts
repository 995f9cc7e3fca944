/** Dark or light: what the person chose here, else what the system prefers. */
import { useEffect, useState } from "react";

export type Theme = "dark" | "light";
const KEY = "slipway-chat-theme";

function initial(): Theme {
  const chosen = window.localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") return chosen;
  return window.matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(initial);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const toggle = () => {
    const next = theme === "dark" ? "light" : "dark";
    window.localStorage.setItem(KEY, next);
    setTheme(next);
  };
  return [theme, toggle];
}
