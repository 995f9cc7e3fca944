"""Rotation, deletion, endpoint policy, and where the bucket stands in keys."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from storage.destinations import Destinations
from storage.s3_destination import S3Destination, endpoint_problem, is_public
from storage.s3_probe import probe
from tests.exports.conftest import BASE, Exporter
from tests.exports.seeding import DAY

PATH = f"{BASE}/destinations"


def credentials(exporter: Exporter) -> dict[str, str]:
    return dict(exporter.destination_body()["credentials"])


async def test_destinations_are_listed_newest_first(exporter: Exporter) -> None:
    first, second = await exporter.create_destination(), await exporter.create_destination()

    listed = (await exporter.client.get(PATH)).json()

    assert [destination["id"] for destination in listed] == [second, first]


async def test_rotated_credentials_must_work(exporter: Exporter) -> None:
    destination = await exporter.create_destination()

    refused = await exporter.client.patch(
        f"{PATH}/{destination}", json={"credentials": credentials(exporter) | {"secret_access_key": "wrong"}}
    )
    accepted = await exporter.client.patch(
        f"{PATH}/{destination}", json={"credentials": credentials(exporter)}
    )

    assert refused.status_code == 400
    assert "signature does not match" in refused.json()["detail"]
    assert accepted.status_code == 200
    assert accepted.json()["updated_at"] > accepted.json()["created_at"]


@pytest.mark.parametrize(
    "body",
    [
        {"display_name": "other"},
        {"config": {"prefix": "other"}},
        {"credentials": {"access_key_id": "x"}},
        {"credentials": "x"},
    ],
)
async def test_nothing_but_credentials_can_be_changed(exporter: Exporter, body: dict[str, Any]) -> None:
    destination = await exporter.create_destination()

    assert (await exporter.client.patch(f"{PATH}/{destination}", json=body)).status_code == 422


async def test_unfinished_runs_keep_the_credentials_they_started_with(exporter: Exporter) -> None:
    destination = await exporter.create_destination()
    export = await exporter.create(
        destination, DAY, DAY + timedelta(days=1), session_id=str(await exporter.project())
    )
    await exporter.wait(export["id"])
    async with exporter.database.transaction() as connection:
        await connection.execute(
            "UPDATE export_runs SET status = 'RUNNING', credentials_version = 1 WHERE export_id = %s",
            (export["id"],),
        )

    async def versions() -> list[int]:
        rotated = await exporter.client.patch(
            f"{PATH}/{destination}", json={"credentials": credentials(exporter)}
        )
        assert rotated.status_code == 200
        async with exporter.database.connection() as connection:
            cursor = await connection.execute(
                "SELECT version FROM export_credentials WHERE destination_id = %s ORDER BY version",
                (destination,),
            )
            return [row["version"] for row in await cursor.fetchall()]

    assert await versions() == [1, 2]
    assert await versions() == [1, 3]
    async with exporter.database.transaction() as connection:
        kept = await Destinations(connection, exporter.tenant_id).credentials(
            (await Destinations(connection, exporter.tenant_id).all_destinations())[0].id, 1
        )
        assert kept is not None
        assert kept[0] == 1
        await connection.execute(
            "UPDATE export_runs SET status = 'COMPLETED' WHERE export_id = %s", (export["id"],)
        )
    assert await versions() == [4]


async def test_a_referenced_destination_cannot_be_deleted(exporter: Exporter) -> None:
    used, unused = await exporter.create_destination(), await exporter.create_destination()
    await exporter.create(used, DAY, DAY + timedelta(days=1), session_id=str(await exporter.project()))

    assert (await exporter.client.delete(f"{PATH}/{used}")).status_code == 409
    deleted = await exporter.client.delete(f"{PATH}/{unused}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await exporter.client.delete(f"{PATH}/{unused}")).status_code == 404
    assert (await exporter.client.delete(f"{PATH}/nope")).status_code == 422
    assert [item["id"] for item in (await exporter.client.get(PATH)).json()] == [used]


async def test_unknown_destinations_are_404(exporter: Exporter) -> None:
    path = f"{PATH}/{uuid4()}"
    answers = [
        await exporter.client.get(path),
        await exporter.client.delete(path),
        await exporter.client.patch(path, json={"credentials": credentials(exporter)}),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]


async def test_upload_options_and_temporary_credentials_are_accepted(exporter: Exporter) -> None:
    body = exporter.destination_body(
        config={
            "s3_additional_kwargs": {"StorageClass": "STANDARD", "Metadata": {"team": "data"}},
            "config_kwargs_s3": {"addressing_style": "path", "payload_signing_enabled": True},
        }
    )

    answer = await exporter.client.post(PATH, json=body)

    assert answer.status_code == 200, answer.text
    assert answer.json()["config"]["s3_additional_kwargs"]["Metadata"] == {"team": "data"}


async def test_the_bucket_may_stand_in_the_endpoint(exporter: Exporter) -> None:
    """`include_bucket_in_prefix` off: requests go to `<endpoint>/<prefix>/…`, with no bucket before it."""
    place = S3Destination(
        {
            "prefix": "exports/team",
            "include_bucket_in_prefix": False,
            "bucket_name": "b",
            "endpoint_url": "http://b.h",
        },
        {},
    )

    assert (place.bucket, place.key("x")) == ("exports", "team/x")

    bucket = exporter.stack.demo_bucket
    body = exporter.destination_body(
        config={
            "include_bucket_in_prefix": False,
            "prefix": f"{bucket}/{exporter.prefix}",
            "bucket_name": None,
        }
    )
    answer = await exporter.client.post(PATH, json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "0.0.0.0",
        "100.64.0.1",
        "::ffff:127.0.0.1",
        "fe80::1%eth0",
        "224.0.0.1",
    ],
)
def test_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_public("8.8.8.8")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8333",
        "http://localhost:8333",
        "http://[::1]:8333",
        "http://0x7f000001/",
        "http://2130706433",
    ],
)
async def test_endpoints_in_the_services_network_are_refused_unless_allowed(url: str) -> None:
    assert await endpoint_problem(url, allow_private=True) is None
    problem = await endpoint_problem(url, allow_private=False)
    assert problem is not None
    assert "own network" in problem or "cannot be found" in problem


async def test_a_name_that_leads_into_the_network_later_is_refused_when_connecting(
    exporter: Exporter,
) -> None:
    """The check at creation is not the only one: names can change where they lead."""
    body = exporter.destination_body()
    config = body["config"] | {
        "endpoint_url": exporter.stack.s3_endpoint_url.replace("127.0.0.1", "localhost")
    }
    place = S3Destination(config, body["credentials"], allow_private_endpoints=False)

    failure = await probe(place)
    assert failure is not None
    assert "own network" in failure.reason
    with pytest.raises(Exception, match=r"."):
        async with place.client(attempts=1, timeout_seconds=3) as client:
            await client.put_object(Bucket=place.bucket, Key=place.key("x"), Body=b"x")
    assert await exporter.keys() == []
