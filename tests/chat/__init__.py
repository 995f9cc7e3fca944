"""The chat application against a running stack: routes, the SDK's controller, the page in a browser."""
