"""What dialogs ask: elements, fields and how they are checked."""
