"""Finding the foreign key that an embedded resource means."""

import difflib

from stack.rest.catalog import Relation, SchemaCatalog
from stack.rest.errors import RestError, Unsupported
from stack.rest.selecting import Embed


def find_relation(catalog: SchemaCatalog, schema: str, source: str, embed: Embed) -> Relation:
    """The one relation between a table and an embedded resource."""
    relations = catalog.relations.get((schema, source), [])
    found = [relation for relation in relations if _fits(relation, embed)]
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous(source, embed, found)
    if _has_junction(catalog, schema, source, embed.name):
        raise Unsupported("embedding through a junction table (many-to-many)")
    raise _missing(catalog, schema, source, embed)


def _fits(relation: Relation, embed: Embed) -> bool:
    by_column = relation.is_to_one and [ours for ours, _ in relation.pairs] == [embed.name]
    if embed.name not in (relation.target, relation.constraint) and not by_column:
        return False
    if embed.hint is None:
        return True
    columns = {column for pair in relation.pairs for column in pair}
    return embed.hint in (relation.constraint, relation.target) or embed.hint in columns


def _has_junction(catalog: SchemaCatalog, schema: str, source: str, target: str) -> bool:
    return any(
        inner.target == target and inner.is_to_one
        for outer in catalog.relations.get((schema, source), [])
        if not outer.is_to_one
        for inner in catalog.relations.get((schema, outer.target), [])
    )


def _ambiguous(source: str, embed: Embed, found: list[Relation]) -> RestError:
    choices = ", ".join(f"'{relation.target}!{relation.constraint}'" for relation in found)
    return RestError(
        300,
        "PGRST201",
        f"Could not embed because more than one relationship was found for '{source}' and '{embed.name}'",
        [relation.describe() for relation in found],
        f"Try changing '{embed.name}' to one of the following: {choices}."
        " Find the desired relationship in the 'details' key.",
    )


def _missing(catalog: SchemaCatalog, schema: str, source: str, embed: Embed) -> RestError:
    using = f"' using the hint '{embed.hint}" if embed.hint else ""
    near = difflib.get_close_matches(embed.name, {r.target for r in catalog.relations.get((schema, source), [])}, 1)
    hint = f"Perhaps you meant '{near[0]}' instead of '{embed.name}'." if near and near[0] != embed.name else None
    return RestError(
        400,
        "PGRST200",
        f"Could not find a relationship between '{source}' and '{embed.name}' in the schema cache",
        f"Searched for a foreign key relationship between '{source}' and '{embed.name}{using}'"
        f" in the schema '{schema}', but no matches were found.",
        hint,
    )
