import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/conversation.css";
import "./styles/trace.css";

const root = document.getElementById("root");
if (!root) throw new Error("The page has no element #root.");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
