from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stack.realtime.channel import JoinRequest, parse_join
from stack.realtime.subscriptions import binding_id

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
sections = st.fixed_dictionaries({}, optional=dict.fromkeys(("broadcast", "private", "postgres_changes"), json_values))


@given(st.one_of(json_values, st.fixed_dictionaries({"config": sections | json_values})))
def test_no_payload_is_refused(payload: Any) -> None:
    assert isinstance(parse_join(payload), JoinRequest)


def test_everything_is_read() -> None:
    config = {"private": "TRUE", "postgres_changes": [None, {"event": "*"}]}
    request = parse_join({"config": config, "access_token": "a"})
    assert request == JoinRequest(token="a", is_private=True, bindings=({"event": "*"},))


@given(st.dictionaries(st.text(), json_values))
def test_ids_are_stable_and_never_zero(binding: dict[str, Any]) -> None:
    number = binding_id(binding)
    assert 0 < number < 2**31
    assert binding_id(dict(reversed(list(binding.items())))) == number
