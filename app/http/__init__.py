"""The browser's requests without the websocket."""
