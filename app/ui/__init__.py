"""The kit that every page is built from: badges, tables, panels, dialogs, forms. It knows no session and no feature."""
