"""A new password ends the other sessions of the dashboard, as its own HTTP answers show."""

import httpx

from tests.e2e.product import Person, Product
from tests.support.waiting import wait_until


def browser(product: Product, person: Person) -> httpx.Client:
    client = httpx.Client(base_url=product.url, headers={"origin": product.url}, timeout=60)
    body = {"email": person.email, "password": person.password}
    client.post("/auth/login", json=body).raise_for_status()
    return client


def test_a_new_password_ends_the_dashboards_other_sessions(product: Product) -> None:
    person = product.person("changer")
    with browser(product, person) as first, browser(product, person) as second:
        assert [one.get("/api/audit.csv").status_code for one in (first, second)] == [200, 200]
        headers = {"apikey": product.stack.publishable_key, "authorization": f"Bearer {person.token}"}
        changed = {"password": "another-horse-battery"}
        httpx.put(f"{product.stack.url}/auth/v1/user", json=changed, headers=headers, timeout=60).raise_for_status()
        for one in (first, second):
            wait_until(lambda one=one: one.get("/api/audit.csv").status_code == 401)  # type: ignore[misc]
