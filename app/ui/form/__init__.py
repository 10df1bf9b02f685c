"""The forms of dialogs: elements, fields and their checks."""
