/** Icons, drawn in place so that the page asks no other host for them. */
import type { ReactNode } from "react";

function Icon({ children }: { children: ReactNode }) {
  return (
    <svg
      className="icon"
      viewBox="0 0 24 24"
      width="18"
      height="18"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

export const MenuIcon = () => <Icon><path d="M4 6h16M4 12h16M4 18h16" /></Icon>;
export const CloseIcon = () => <Icon><path d="M6 6l12 12M18 6L6 18" /></Icon>;
export const PlusIcon = () => <Icon><path d="M12 5v14M5 12h14" /></Icon>;
export const TrashIcon = () => <Icon><path d="M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5" /></Icon>;
export const SendIcon = () => <Icon><path d="M12 19V5M6 11l6-6 6 6" /></Icon>;
export const StopIcon = () => <Icon><rect x="7" y="7" width="10" height="10" rx="1.5" fill="currentColor" /></Icon>;
export const SunIcon = () => (
  <Icon>
    <circle cx="12" cy="12" r="4" />
    <path d="M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5" />
  </Icon>
);
export const MoonIcon = () => <Icon><path d="M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z" /></Icon>;
export const ToolIcon = () => (
  <Icon><path d="M14.5 6.5a4 4 0 0 0-5.3 5L4 16.7 7.3 20l5.2-5.2a4 4 0 0 0 5-5.3L15 12l-3-3z" /></Icon>
);
export const AgentIcon = () => (
  <Icon>
    <rect x="5" y="8" width="14" height="11" rx="3" />
    <path d="M12 8V4M9.5 13v1.5M14.5 13v1.5" />
  </Icon>
);
export const ChevronIcon = () => <Icon><path d="M9 6l6 6-6 6" /></Icon>;
export const BackIcon = () => <Icon><path d="M15 6l-6 6 6 6" /></Icon>;
export const ThoughtIcon = () => (
  <Icon><path d="M9 18h6M10 21h4M8.5 14.5A6 6 0 1 1 15.5 14.5c-.6.5-.9 1.1-1 1.8h-5c-.1-.7-.4-1.3-1-1.8z" /></Icon>
);
export const WarningIcon = () => <Icon><path d="M12 4l9 16H3zM12 10v4M12 17v.2" /></Icon>;
export const LinkIcon = () => <Icon><path d="M14 5h5v5M19 5l-8 8M17 14v5H5V7h5" /></Icon>;
