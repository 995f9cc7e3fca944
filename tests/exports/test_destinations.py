"""Destinations are checked by using them; each way to fail is told apart."""

from typing import Any

import pytest

from tests.exports.conftest import BASE, Exporter

PATH = f"{BASE}/destinations"


async def test_a_destination_is_stored_without_showing_its_credentials(exporter: Exporter) -> None:
    answer = await exporter.client.post(PATH, json=exporter.destination_body())

    assert answer.status_code == 200, answer.text
    assert answer.json()["credentials_keys"] == ["access_key_id", "secret_access_key"]
    assert exporter.stack.s3_secret_access_key not in answer.text
    assert exporter.stack.s3_access_key_id not in answer.text
    again = await exporter.client.get(f"{PATH}/{answer.json()['id']}")
    assert again.json() == answer.json()


async def test_the_probe_leaves_nothing_behind(exporter: Exporter) -> None:
    await exporter.create_destination()

    assert await exporter.keys() == []


async def test_credentials_are_encrypted_at_rest(exporter: Exporter) -> None:
    await exporter.create_destination()

    async with exporter.database.connection() as connection:
        cursor = await connection.execute(
            "SELECT c.credentials, d.config::text FROM export_credentials c"
            " JOIN export_destinations d ON d.id = c.destination_id WHERE d.tenant_id = %s",
            (exporter.tenant_id,),
        )
        row = await cursor.fetchone()
    assert row is not None
    assert exporter.stack.s3_secret_access_key.encode() not in bytes(row["credentials"])
    assert exporter.stack.s3_secret_access_key not in row["config"]


FAILURES: list[tuple[dict[str, Any], str]] = [
    (
        {"credentials": {"access_key_id": "nobody", "secret_access_key": "x"}},
        "access key ID you provided does not exist",
    ),
    ({"credentials": {"secret_access_key": "wrong"}}, "signature does not match"),
    ({"config": {"bucket_name": "no-such-bucket-here"}}, "bucket does not exist"),
    ({"config": {"bucket_name": None}}, "Bucket is not valid"),
    ({"config": {"bucket_name": "Not_A_Bucket"}}, "ucket"),
    ({"config": {"endpoint_url": "http://127.0.0.1:9"}}, "Invalid endpoint: it cannot be reached"),
    ({"config": {"endpoint_url": "http://no-such-host.invalid"}}, "Invalid endpoint: it cannot be reached"),
    ({"config": {"endpoint_url": "ftp://127.0.0.1"}}, "must be an http:// or https:// address"),
    ({"config": {"endpoint_url": "http://a:b@127.0.0.1"}}, "must not hold credentials"),
    ({"config": {"endpoint_url": "http://127.0.0.1:99999"}}, "Invalid endpoint"),
    ({"config": {"include_bucket_in_prefix": False, "prefix": ""}}, "prefix must not be empty"),
    ({"credentials": None}, "no credentials were given"),
]


@pytest.mark.parametrize(("changes", "reason"), FAILURES)
async def test_a_destination_that_cannot_be_written_is_refused(
    exporter: Exporter, changes: dict[str, Any], reason: str
) -> None:
    body = exporter.destination_body()
    for part, values in changes.items():
        body[part] = values and {**body[part], **values}

    answer = await exporter.client.post(PATH, json=body)

    assert answer.status_code == 400, answer.text
    detail = answer.json()["detail"]
    assert detail.startswith("Failed to validate S3 destination: ")
    assert reason in detail
    assert exporter.stack.s3_secret_access_key not in detail
    assert (await exporter.client.get(PATH)).json() == []


async def test_tls_to_a_server_without_it_is_named(exporter: Exporter) -> None:
    secure = exporter.stack.s3_endpoint_url.replace("http://", "https://")

    answer = await exporter.client.post(PATH, json=exporter.destination_body(config={"endpoint_url": secure}))

    assert answer.status_code == 400
    assert "TLS" in answer.json()["detail"]


MALFORMED: list[dict[str, Any]] = [
    {"display_name": ""},
    {"display_name": "a/b"},
    {"display_name": None},
    {"destination_type": "gcs"},
    {"config": None},
    {"config": {"bucket_name": "ab"}},
    {"config": {"prefix": "x" * 3000}},
    {"config": {"region": ""}},
    {"config": {"s3_additional_kwargs": {"Bucket": "another"}}},
    {"config": {"s3_additional_kwargs": {"Key": "another"}}},
    {"config": {"config_kwargs_s3": {"addressing_style": "other"}}},
    {"config": {"config_kwargs_s3": {"unknown": True}}},
    {"credentials": {"access_key_id": "", "secret_access_key": "x"}},
    {"credentials": {"access_key_id": "x"}},
]


@pytest.mark.parametrize("changes", MALFORMED)
async def test_malformed_destinations_are_refused(exporter: Exporter, changes: dict[str, Any]) -> None:
    answer = await exporter.client.post(PATH, json=exporter.destination_body() | changes)

    assert answer.status_code == 422, answer.text
    assert (await exporter.client.get(PATH)).json() == []
