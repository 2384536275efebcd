"""Which settings of Hadoop's file systems pyarrow is given, and which are a reason to leave reading to Spark."""

from __future__ import annotations

import pytest

from episode.spark.scan.storage import LOCAL, Storage, Workplace, storage_of

KEYS = {"fs.s3a.access.key": "AKIA", "fs.s3a.secret.key": "s3cret", "fs.s3a.endpoint.region": "eu-west-1"}
HERE = Workplace("ann", {}, {})


def options(uri: str, settings: dict[str, str]) -> dict[str, object]:
    found = storage_of(uri, settings.get, HERE)
    assert isinstance(found, Storage), found
    return dict(found.options)


def reason(uri: str, settings: dict[str, str], workplace: Workplace = HERE) -> str:
    found = storage_of(uri, settings.get, workplace)
    assert isinstance(found, str)
    return found


def test_local_files() -> None:
    found = storage_of("file:/data/a%20b/p=1%252F2/x.parquet", {}.get, HERE)
    assert found == LOCAL
    assert LOCAL.open() is None
    assert LOCAL.path("file:///data/a%20b%23/p=1%252F2/x.parquet") == "/data/a b#/p=1%2F2/x.parquet"
    assert "another machine" in reason("file://host/x", {})
    assert reason("viewfs://cluster/x", {}) == "pyarrow has no file system for viewfs:"


# ---- S3 ------------------------------------------------------------------------------------------------------


def test_keys_region_and_endpoint_of_s3() -> None:
    explicit = {"access_key": "AKIA", "secret_key": "s3cret"}
    place = {"scheme": "https", "region": "eu-west-1"}
    assert options("s3a://b/x", KEYS) == explicit | place
    assert options("s3a://b/x", KEYS | {"fs.s3a.session.token": "t"}) == explicit | place | {"session_token": "t"}
    other = KEYS | {"fs.s3a.bucket.b.access.key": "OTHER"}
    assert options("s3a://b/x", other)["access_key"] == "OTHER"
    assert options("s3a://c/x", other)["access_key"] == "AKIA"
    assert options("s3a://b/x", KEYS | {"fs.s3a.endpoint": "s3.us-east-2.amazonaws.com"}) == explicit | place
    own = KEYS | {"fs.s3a.endpoint": "http://store:9000/", "fs.s3a.path.style.access": "true"}
    assert options("s3a://b/x", own) == explicit | place | {"scheme": "http", "endpoint_override": "store:9000"}
    virtual = KEYS | {"fs.s3a.endpoint": "store:9000", "fs.s3a.connection.ssl.enabled": "false"}
    assert options("s3a://b/x", virtual)["force_virtual_addressing"] is True
    assert options("s3a://b/x", virtual)["scheme"] == "http"
    assert "force_virtual_addressing" not in options("s3a://b/x", KEYS | {"fs.s3a.endpoint": "127.0.0.1:9000"})
    storage = storage_of("s3a://b/day=1/x%3D.parquet", KEYS.get, HERE)
    assert isinstance(storage, Storage)
    assert storage.path("s3a://b/day=1/x%3D.parquet") == "b/day=1/x=.parquet"
    assert "s3cret" not in repr(storage)


@pytest.mark.parametrize(
    ("provider", "found"),
    [
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", {"anonymous": True}),
        ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", {"access_key": "AKIA", "secret_key": "s3cret"}),
        ("software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider", {}),
        (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,\n"
            " org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
            {},
        ),
    ],
)
def test_credential_providers_of_s3(provider: str, found: dict[str, object]) -> None:
    given = options("s3a://b/x", KEYS | {"fs.s3a.aws.credentials.provider": provider})
    assert {key: value for key, value in given.items() if key not in ("scheme", "region")} == found


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"fs.s3a.aws.credentials.provider": "com.example.Vault"}, "fs.s3a.aws.credentials.provider has Vault"),
        ({"fs.s3a.encryption.algorithm": "SSE-C"}, "fs.s3a.encryption.algorithm is SSE-C"),
        ({"fs.s3a.encryption.algorithm": "CSE-KMS"}, "fs.s3a.encryption.algorithm is CSE-KMS"),
        ({"fs.s3a.proxy.host": "proxy"}, "fs.s3a.proxy.host is set"),
        ({"fs.s3a.bucket.b.requester.pays.enabled": "true"}, "fs.s3a.requester.pays.enabled is set"),
        ({"fs.s3a.impl": "com.example.Fs"}, "fs.s3a.impl is com.example.Fs"),
        ({"hadoop.security.credential.provider.path": "jceks://x"}, "hadoop.security.credential.provider.path is set"),
        (
            {"fs.s3a.aws.credentials.provider": "x.SimpleAWSCredentialsProvider", "fs.s3a.secret.key": ""},
            "fs.s3a.access.key and fs.s3a.secret.key are not set",
        ),
    ],
)
def test_settings_of_s3_without_a_counterpart(settings: dict[str, str], text: str) -> None:
    assert text in reason("s3a://b/x", KEYS | settings)


def test_s3_by_another_name_only_where_hadoop_says_so() -> None:
    assert reason("s3://b/x", KEYS) == "pyarrow has no file system for s3:"
    implied = KEYS | {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    assert options("s3://b/x", implied)["access_key"] == "AKIA"


# ---- GCS, ABFS, HDFS -----------------------------------------------------------------------------------------


def test_gcs() -> None:
    assert options("gs://b/x", {}) == {}
    assert options("gs://b/x", {"fs.gs.auth.type": "UNAUTHENTICATED"}) == {"anonymous": True}
    place = {"fs.gs.storage.root.url": "http://127.0.0.1:4443"}
    assert options("gs://b/x", place) == {"scheme": "http", "endpoint_override": "127.0.0.1:4443"}
    assert "fs.gs.auth.type is USER_CREDENTIALS" in reason("gs://b/x", {"fs.gs.auth.type": "USER_CREDENTIALS"})
    assert "json.keyfile is set" in reason("gs://b/x", {"fs.gs.auth.service.account.json.keyfile": "/key"})


ABFS = "abfss://box@acct.dfs.core.windows.net/x.parquet"
ACCOUNT = ".acct.dfs.core.windows.net"


def test_abfs() -> None:
    key = {f"fs.azure.account.key{ACCOUNT}": "k"}
    assert options(ABFS, key) == {"account_name": "acct", "account_key": "k"}
    storage = storage_of(ABFS, key.get, HERE)
    assert isinstance(storage, Storage)
    assert storage.path(ABFS) == "box/x.parquet"
    sas = {f"fs.azure.account.auth.type{ACCOUNT}": "SAS", f"fs.azure.sas.fixed.token{ACCOUNT}": "s"}
    assert options(ABFS, sas)["sas_token"] == "s"
    prefix = "fs.azure.account.oauth2.client."
    oauth = {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
        f"{prefix}id": "me",
        f"{prefix}secret": "shh",
        f"{prefix}endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
    }
    assert options(ABFS, oauth) == {
        "account_name": "acct", "tenant_id": "tenant", "client_id": "me", "client_secret": "shh",
    }  # fmt: skip
    china = options("abfs://box@acct.dfs.core.chinacloudapi.cn/x", {"fs.azure.account.key": "k"})
    assert china["blob_storage_authority"] == ".blob.core.chinacloudapi.cn"
    assert reason(ABFS, {}) == "fs.azure.account.key is not set"
    managed = oauth | {"fs.azure.account.oauth.provider.type": "x.MsiTokenProvider"}
    assert "OAuth (MsiTokenProvider)" in reason(ABFS, managed)
    assert "is not a container" in reason("abfss://box@acct.example.com/x", key)


def test_hdfs_needs_libhdfs_here_and_in_the_workers() -> None:
    ready = {"CLASSPATH": "x.jar", "HADOOP_HOME": "/opt/hadoop"}
    assert "libhdfs is not set up" in reason("hdfs://name:8020/x", {})
    assert "of the workers" in reason("hdfs://name:8020/x", {}, Workplace("ann", ready, {}))
    kerberos = {"hadoop.security.authentication": "kerberos"}
    assert "is kerberos" in reason("hdfs://name:8020/x", kerberos, Workplace("ann", ready, ready))
    found = storage_of("hdfs://name:8020/a%20b", {}.get, Workplace("ann", ready, ready))
    assert isinstance(found, Storage)
    assert dict(found.options) == {"host": "name", "port": 8020, "user": "ann"}
    assert found.path("hdfs://name:8020/a%20b") == "/a b"
