"""The file systems on which files are read directly: local ones, and those of pyarrow for S3, GCS, ABFS and HDFS.

A `Storage` has what pyarrow must be given to open the file system that Spark reads through Hadoop, taken from Hadoop's
settings. Settings that pyarrow has no counterpart for are a reason not to read directly; none is left out silently.

See decision 144.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

from pyarrow import fs

Setting = Callable[[str], str | None]
"""A setting of Hadoop by its name; None or "": not set."""

_RETRY = timedelta(seconds=60)


@dataclass(frozen=True)
class Storage:
    """A file system; `root` is what comes before a file's path on it (a bucket, a container)."""

    kind: str = "local"
    root: str = ""
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)  # has secrets

    def open(self) -> fs.FileSystem | None:
        """pyarrow's file system; None: paths are those of this machine."""
        if self.kind == "local":
            return None
        options = {"retry_time_limit": _RETRY} if self.kind == "gs" else {}
        return getattr(fs, _SYSTEMS[self.kind][1])(**options, **dict(self.options))

    def path(self, uri: str) -> str:
        """The path of a file, given its encoded URI."""
        return self.root + unquote(urlsplit(uri).path)

    @property
    def words(self) -> str:
        """The location of the files, for explain."""
        place = self.root or dict(self.options).get("host", "")
        return "" if self.kind == "local" else f"from {_SYSTEMS[self.kind][0]} ({place})"


LOCAL = Storage()
_SYSTEMS = {
    "s3": ("S3", "S3FileSystem"),
    "gs": ("GCS", "GcsFileSystem"),
    "abfs": ("ABFS", "AzureFileSystem"),
    "hdfs": ("HDFS", "HadoopFileSystem"),
}
"""By kind: the name, and pyarrow's class (older versions lack some)."""


@dataclass(frozen=True)
class Workplace:
    """Facts beyond Hadoop's settings: the user's name, the environments of this process and of the workers."""

    user: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    worker_environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def storage_of(uri: str, setting: Setting, workplace: Workplace) -> Storage | str:
    """The storage of a file, or why it is not read directly."""
    parts = urlsplit(uri)
    authority = unquote(parts.netloc)
    match parts.scheme:
        case "file":
            return LOCAL if not authority else f"the input's files are on another machine ({authority})"
        case "s3a" | "s3" | "s3n" as scheme if scheme == "s3a" or setting(f"fs.{scheme}.impl") == _S3A:
            return _s3(authority, setting)
        case "gs":
            return _gcs(authority, setting)
        case "abfs" | "abfss":
            return _abfs(parts.scheme, authority, setting)
        case "hdfs":
            return _hdfs(authority, setting, workplace)
        case other:
            return f"pyarrow has no file system for {other}:"


def _refusal(setting: Setting, names: tuple[str, ...]) -> str | None:
    """The first of these settings that is set, as a reason."""
    name = next((name for name in names if setting(name) not in (None, "", "false")), None)
    return None if name is None else f"{name} is set, which pyarrow has no counterpart for"


# ---- S3 ----------------------------------------------------------------------------------------------------

_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_AWS_HOST = re.compile(r"s3(?:[.-](?P<region>[a-z0-9-]+))?\.amazonaws\.com")
_S3_REFUSED = (
    "accesspoint.arn",
    "custom.signers",
    "delegation.token.binding",
    "proxy.host",
    "requester.pays.enabled",
    "security.credential.provider.path",
    "signing-algorithm",
)
_PLAIN_KEYS = "SimpleAWSCredentialsProvider"
_SESSION_KEYS = "TemporaryAWSCredentialsProvider"
_NO_KEYS = ("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider")
_FOUND_KEYS = (
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "DefaultCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "WebIdentityTokenFileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
)
"""Credentials that pyarrow finds where Hadoop finds them: environment, web identity, container, instance."""
_USUAL_PROVIDERS = (_SESSION_KEYS, _PLAIN_KEYS, *_FOUND_KEYS[:2])


def _s3(bucket: str, hadoop: Setting) -> Storage | str:
    def setting(name: str) -> str | None:
        return hadoop(f"fs.s3a.bucket.{bucket}.{name}") or hadoop(f"fs.s3a.{name}")

    if (hadoop("fs.s3a.impl") or _S3A) != _S3A:
        return f"fs.s3a.impl is {hadoop('fs.s3a.impl')}"
    refused = _refusal(lambda name: setting(name.removeprefix("fs.s3a.")), tuple(f"fs.s3a.{n}" for n in _S3_REFUSED))
    refused = refused or _refusal(hadoop, ("hadoop.security.credential.provider.path",))
    if refused is not None:
        return refused
    encryption = setting("encryption.algorithm") or setting("server-side-encryption-algorithm") or ""
    if encryption.startswith(("SSE-C", "CSE")):
        return f"fs.s3a.encryption.algorithm is {encryption}"
    options = _s3_credentials(setting)
    if isinstance(options, str):
        return options
    return Storage("s3", bucket, tuple((options | _s3_place(bucket, setting)).items()))


def _s3_credentials(setting: Setting) -> dict[str, Any] | str:
    """Credentials of the first provider that has any; "" if they are found in the environment."""
    given = (setting("aws.credentials.provider") or "").replace("\n", ",").split(",")
    providers = [name.strip().rsplit(".", 1)[-1] for name in given if name.strip()] or list(_USUAL_PROVIDERS)
    known = (_PLAIN_KEYS, _SESSION_KEYS, *_NO_KEYS, *_FOUND_KEYS)
    other = next((name for name in providers if name not in known), None)
    if other is not None:
        return f"fs.s3a.aws.credentials.provider has {other}, which pyarrow has no counterpart for"
    key, secret, token = setting("access.key"), setting("secret.key"), setting("session.token")
    for name in providers:
        if name in _NO_KEYS:
            return {"anonymous": True}
        if name in _FOUND_KEYS:
            return {}
        if name == _SESSION_KEYS and key and secret and token:
            return {"access_key": key, "secret_key": secret, "session_token": token}
        if name == _PLAIN_KEYS and key and secret:
            return {"access_key": key, "secret_key": secret}
    return "fs.s3a.access.key and fs.s3a.secret.key are not set"


def _s3_place(bucket: str, setting: Setting) -> dict[str, Any]:
    """Region, endpoint and the style of addresses."""
    endpoint, region = setting("endpoint") or "", setting("endpoint.region")
    scheme = "http" if setting("connection.ssl.enabled") == "false" else "https"
    if "://" in endpoint:
        scheme, _, endpoint = endpoint.partition("://")
    endpoint = endpoint.rstrip("/")
    amazon = _AWS_HOST.fullmatch(endpoint)
    if amazon is not None or not endpoint:
        return {"scheme": scheme, "region": region or (amazon and amazon["region"]) or fs.resolve_s3_region(bucket)}
    place = {"scheme": scheme, "endpoint_override": endpoint, "region": region or "us-east-1"}
    by_path = setting("path.style.access") == "true"
    with suppress(ValueError):
        ipaddress.ip_address((endpoint.rpartition(":")[0] or endpoint).strip("[]"))
        by_path = True
    return place if by_path else place | {"force_virtual_addressing": True}


# ---- Google Cloud Storage ----------------------------------------------------------------------------------

_GCS_REFUSED = (
    "fs.gs.auth.service.account.json.keyfile",
    "google.cloud.auth.service.account.json.keyfile",
    "fs.gs.auth.service.account.email",
    "fs.gs.auth.access.token.provider",
    "fs.gs.auth.access.token.provider.impl",
    "fs.gs.auth.impersonation.service.account",
    "fs.gs.auth.client.id",
    "fs.gs.encryption.key",
    "fs.gs.proxy.address",
    "fs.gs.requester.pays.mode",
)


def _gcs(bucket: str, setting: Setting) -> Storage | str:
    refused = _refusal(lambda name: None if setting(name) == "DISABLED" else setting(name), _GCS_REFUSED)
    if refused is not None:
        return refused
    kind = setting("fs.gs.auth.type") or "COMPUTE_ENGINE"
    anonymous = kind == "UNAUTHENTICATED" or setting("fs.gs.auth.null.enable") == "true"
    if not anonymous and kind not in ("COMPUTE_ENGINE", "APPLICATION_DEFAULT"):
        return f"fs.gs.auth.type is {kind}, which pyarrow has no counterpart for"
    options: dict[str, Any] = {"anonymous": True} if anonymous else {}
    place = setting("fs.gs.storage.root.url")
    if place and place.rstrip("/") != "https://storage.googleapis.com":
        parts = urlsplit(place)
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return Storage("gs", bucket, tuple(options.items()))


# ---- Azure -------------------------------------------------------------------------------------------------

_ABFS_REFUSED = (
    "fs.azure.account.keyprovider",
    "fs.azure.encryption.context.provider.type",
    "fs.azure.encryption.encoded.client-provided-key",
    "fs.azure.sas.token.provider.type",
)
_CLIENT_SECRET = "ClientCredsTokenProvider"
_SIMPLE_KEY = "org.apache.hadoop.fs.azurebfs.services.SimpleKeyProvider"


def _abfs(scheme: str, authority: str, hadoop: Setting) -> Storage | str:
    container, _, host = authority.partition("@")
    account, dot, domain = host.partition(".")
    if not container or not domain.startswith("dfs."):
        return f"{scheme}://{authority} is not a container of a storage account"

    def setting(name: str) -> str | None:
        return hadoop(f"{name}.{host}") or hadoop(name)

    refused = _refusal(lambda name: None if setting(name) == _SIMPLE_KEY else setting(name), _ABFS_REFUSED)
    if refused is not None:
        return refused
    options = _abfs_credentials(setting)
    if isinstance(options, str):
        return options
    if domain != "dfs.core.windows.net":
        options |= {"dfs_storage_authority": dot + domain, "blob_storage_authority": f".blob.{domain[4:]}"}
    if scheme == "abfs" and hadoop("fs.azure.always.use.https") == "false":
        options |= {"dfs_storage_scheme": "http", "blob_storage_scheme": "http"}
    return Storage("abfs", container, (("account_name", account), *options.items()))


def _abfs_credentials(setting: Setting) -> dict[str, Any] | str:
    kind = setting("fs.azure.account.auth.type") or "SharedKey"
    if kind == "SharedKey":
        key = setting("fs.azure.account.key")
        return {"account_key": key} if key else "fs.azure.account.key is not set"
    if kind == "SAS":
        token = setting("fs.azure.sas.fixed.token")
        return {"sas_token": token} if token else "fs.azure.sas.fixed.token is not set"
    provider = (setting("fs.azure.account.oauth.provider.type") or "").rsplit(".", 1)[-1]
    if kind != "OAuth" or provider != _CLIENT_SECRET:
        return f"fs.azure.account.auth.type is {kind} ({provider}), which pyarrow has no counterpart for"
    names = ("client.id", "client.secret", "client.endpoint")
    client, secret, endpoint = (setting(f"fs.azure.account.oauth2.{name}") for name in names)
    tenant = re.fullmatch(r"https://login\.microsoftonline\.com/([^/]+)/oauth2/(?:v2\.0/)?token", endpoint or "")
    if not client or not secret or tenant is None:
        return "fs.azure.account.oauth2.client.id, .secret and .endpoint do not name a tenant of Microsoft's login"
    return {"tenant_id": tenant[1], "client_id": client, "client_secret": secret}


# ---- HDFS --------------------------------------------------------------------------------------------------


def _hdfs(authority: str, setting: Setting, workplace: Workplace) -> Storage | str:
    if (setting("hadoop.security.authentication") or "simple") != "simple":
        return f"hadoop.security.authentication is {setting('hadoop.security.authentication')}"
    for where, environment in (("", workplace.environment), (" of the workers", workplace.worker_environment)):
        if "CLASSPATH" not in environment or not {"HADOOP_HOME", "ARROW_LIBHDFS_DIR"} & set(environment):
            return f"libhdfs is not set up: CLASSPATH and HADOOP_HOME (or ARROW_LIBHDFS_DIR) in the environment{where}"
    host, _, port = authority.partition(":")
    options = {"host": host or "default", "port": int(port or 0), "user": workplace.user or None}
    return Storage("hdfs", "", tuple(options.items()))
