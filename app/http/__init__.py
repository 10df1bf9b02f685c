"""What the browser reads and sends without the websocket."""
