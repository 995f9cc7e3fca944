import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The built page is committed inside the Python package, so that whoever has no Node can open it (README).
export default defineConfig({
  base: "/chat/",
  plugins: [react()],
  build: {
    outDir: "../api/chat/built",
    emptyOutDir: true,
    // Everything is a file of its own: the content-security policy allows neither inline scripts nor data: URLs for them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1200,
    rollupOptions: {
      // About comments in other people's packages, which nobody here can mend.
      onwarn: (warning, warn) => warning.code === "INVALID_ANNOTATION" || warn(warning),
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8000" } },
});
