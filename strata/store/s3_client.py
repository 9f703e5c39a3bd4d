"""The client of S3: its address, its configuration, and the meaning of its errors.

Credentials come from the ordinary chain of AWS; nothing here reads, keeps or shows them.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from strata.errors import InvalidRequest, Unavailable
from strata.model.extras import require
from strata.model.settings import without_password
from strata.store.keys import check_key

MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound"})
THERE: Final = frozenset({"PreconditionFailed", "412"})
CONFLICT: Final = frozenset({"ConditionalRequestConflict", "OperationAborted", "409"})
ENDED: Final = "NoSuchUpload"  # perhaps because it was completed, and the reply was lost
BEYOND: Final = frozenset({"InvalidRange", "416"})
LISTED: Final = "IsTruncated"  # what each page of a listing says
TOKEN: Final = {"ContinuationToken": "NextContinuationToken"}  # see `has_next_page`
# S3 begins their replies before they are done, and says a tag once they are.
_BEGUN: Final = frozenset({"complete_multipart_upload", "copy_object"})
# A whole reply to them may say nothing at all.
_TERSE: Final = frozenset({"put_object", "upload_part", "delete_objects", "get_bucket_versioning"})
_BUCKET: Final = re.compile(r"(arn:[a-z0-9:-]+:)?[A-Za-z0-9._-]+")  # or an access point's ARN
_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_CURES: Final = {  # the reply to a HEAD has no words: its code is the status
    "NoSuchBucket": "make the bucket, or correct its address in the settings",
    "AccessDenied": "give this identity s3:GetObject, PutObject, DeleteObject and ListBucket here",
    "403": "give this identity s3:GetObject, PutObject, DeleteObject and ListBucket here",
    "400": "renew the credentials that AWS's ordinary chain finds, or name the bucket's region",
    "InvalidAccessKeyId": "check the credentials that AWS's ordinary chain finds",
    "SignatureDoesNotMatch": "check the credentials that AWS's ordinary chain finds",
    "ExpiredToken": "renew the credentials that AWS's ordinary chain finds",
    "PermanentRedirect": "name the bucket's region: s3://bucket/prefix?region=...",
    "AuthorizationHeaderMalformed": "name the bucket's region: s3://bucket/prefix?region=...",
    "InvalidObjectState": "bring the object back from the archive (aws s3api restore-object)",
    "RequestTimeTooSkewed": "set this machine's clock",
    "503": "fewer requests at once, or more prefixes",
    "SlowDown": "fewer requests at once, or more prefixes",
}


@dataclass(frozen=True, slots=True)
class S3Address:
    """The place of blobs, parsed from the address in the settings."""

    bucket: str
    prefix: str  # "" or ends with "/"
    endpoint: str | None = None
    region: str | None = None
    parallel: int = 8  # requests of one call at the same time
    attempts: int = 6  # attempts of one request, throttling included

    @classmethod
    def parse(cls, url: str, setting: str | None = None) -> "S3Address":
        """Return the address in `s3://bucket/prefix?option=value`; errors name its setting.

        Raises: InvalidRequest.
        """
        try:
            parts = urlsplit(url)
        except ValueError:  # a [ that nothing closes
            parts = urlsplit("")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(options.keys() - {"endpoint", "region", "parallel", "attempts"})
        cut_off = not {*"#\t\r\n"}.isdisjoint(url)  # from there on, or without a word
        if cut_off or parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or unknown:
            raise InvalidRequest(
                "not an address of blobs on S3",
                setting=setting,
                value=without_password(url),
                unknown=unknown or None,
                cure="s3://bucket/prefix?endpoint=…&region=…&parallel=8&attempts=6, no # and no"
                " credentials",
            )
        prefix = parts.path.strip("/")
        if prefix:
            check_key(prefix)
        return cls(
            parts.netloc,
            f"{prefix}/" if prefix else "",
            options.get("endpoint") or None,
            options.get("region") or None,
            _number(options, "parallel", 8, setting),
            _number(options, "attempts", 6, setting),
        )


def new_client(address: S3Address) -> Any:
    """Return a client for this process. boto3 itself retries with jitter.

    Raises: InvalidRequest for an endpoint or a region that cannot be one.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": address.attempts},
        max_pool_connections=max(10, 2 * address.parallel),
        connect_timeout=10,
        read_timeout=60,
        tcp_keepalive=True,
        s3={"addressing_style": "path"} if address.endpoint else None,
    )
    session = boto3.session.Session()  # a session of its own: the default one is not thread-safe
    try:
        client = session.client(
            "s3", endpoint_url=address.endpoint, region_name=address.region, config=config
        )
    except ValueError as error:
        raise InvalidRequest(
            "no endpoint or no region of S3",
            reason=without_password(str(error)),
            cure="endpoint=https://host:port&region=name, in the address or as AWS's own settings",
        ) from error
    client.meta.events.register_last("before-call.s3", _send_at_once)
    return client


def _send_at_once(params: dict[str, Any], **_: object) -> None:
    """Send a body without asking first whether it is welcome, which costs a round trip.

    Where a connection ends within that answer, botocore 1.44 waits for its rest for ever.
    """
    params["headers"].pop("Expect", None)


class S3Client:
    """Requests to one bucket, as boto3 answers them. Safe to share between threads and forks."""

    def __init__(self, address: S3Address) -> None:
        """Nothing is asked of the server yet. Raises: InvalidRequest without boto3."""
        require("s3", "a store on S3")
        self.address = address
        self._lock = threading.Lock()
        self._client: Any = None
        self._pid = 0

    @property
    def boto(self) -> Any:
        """Return the client of this process: connections must not be shared with a fork."""
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self._client, self._pid = new_client(self.address), os.getpid()
        return self._client

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Return the reply to one request; `outside` says what its errors mean.

        Raises: Unavailable for a reply that ended early: what was asked may have been done.
        """
        reply = getattr(self.boto, operation)(Bucket=self.address.bucket, **arguments)
        if operation in _BEGUN:
            said(reply.get("CopyObjectResult", reply), "ETag", certain=False)
        elif operation in _TERSE and not reply.keys() & {"ETag", "Errors", "Status"}:
            _check_whole(reply)
        return reply

    def listed(self, prefix: str) -> Iterator[Any]:
        """Yield what the server says of each object whose whole key begins with `prefix`.

        Cost: a request for each thousand.
        """
        arguments, more = {"Prefix": prefix}, True
        while more:
            page = self.ask("list_objects_v2", **arguments)
            said(page, LISTED)
            yield from page.get("Contents", ())
            more = has_next_page(page, arguments, **TOKEN)


def has_next_page(page: Any, arguments: dict[str, Any], **names: str) -> bool:
    """Return whether a listing has another page; `arguments` ask for it from then on.

    `names`: what a page says of the next one, by the argument that it becomes.
    Raises: Unavailable for a page that does not say it, or says what led to itself: a short list
    would pass for a whole one, and an endless one has no end.
    """
    if not page.get(LISTED):
        return False
    after = {argument: said(page, name) for argument, name in names.items()}
    if after.items() <= arguments.items():
        raise Unavailable("a listing of S3 leads nowhere", certain=True, cure="try again", **after)
    arguments |= after
    return True


def said(reply: Any, name: str, *, certain: bool = True) -> Any:
    """Return what each whole reply says.

    A connection that ends within the headers leaves a reply without the others and without its
    body, and botocore takes that for all of it: a list without objects, an object without bytes.
    Raises: Unavailable for a reply that does not say it.
    """
    if name not in reply:
        raise _ended_early(certain=certain)
    return reply[name]


def _check_whole(reply: Any) -> None:
    """Refuse a reply without a word of its own whose headers do not say where its body ends.

    Some servers say no tag in reply to a write. Raises: Unavailable.
    """
    headers = reply["ResponseMetadata"]["HTTPHeaders"]
    ends = headers.get("content-length", "").isdigit()
    if not ends and headers.get("transfer-encoding", "").lower() != "chunked":
        raise _ended_early(certain=False)


def body_of(reply: Any) -> bytes:
    """Return the bytes of an object, or of the range that was asked for, all of them.

    Raises: Unavailable for a reply that ends early.
    """
    data: bytes = reply["Body"].read()
    size = reply.get("ContentLength")
    if size is None:
        found = _RANGE.match(str(reply.get("ContentRange")))
        size = int(found[2]) - int(found[1]) + 1 if found else None
    if size != len(data):
        raise _ended_early()
    return data


def piece_of(reply: Any, start: int, length: int) -> tuple[bytes, int]:
    """Return bytes [start, start + length) of an object, as far as it goes, and its size.

    A server may know no ranges and send the whole object; it says so.
    Raises: Unavailable for a reply that has other bytes, or does not say which.
    """
    data = body_of(reply)
    found = _RANGE.match(str(reply.get("ContentRange")))
    if found is None and reply["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.OK:
        return data[start : start + length], len(data)
    first, last, size = map(int, found.groups()) if found else (-1, -1, 0)
    if (first, last) != (start, min(start + length, size) - 1) or len(data) != last + 1 - first:
        raise _ended_early()
    return data, size


def _ended_early(*, certain: bool = True) -> Unavailable:
    return Unavailable("a reply of S3 ended early", certain=certain, cure="try again")


@lru_cache(maxsize=8)
def client_of(address: S3Address) -> S3Client:
    """Return the client that this process shares for an address."""
    return S3Client(address)


def client_error() -> Any:
    """Return the class of errors for refusals by the server."""
    from botocore.exceptions import ClientError

    return ClientError


def boto_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors for requests that did not reach the server, or not entirely."""
    from botocore.exceptions import BotoCoreError, HTTPClientError
    from urllib3.exceptions import HTTPError

    return BotoCoreError, HTTPClientError, HTTPError


def refusal_code(error: Any) -> str:
    """Return the code of a server's refusal; for a HEAD, the status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


@contextmanager
def outside(address: S3Address, key: str, *, certain: bool = True) -> Iterator[None]:
    """Turn exceptions of boto3 into the kind of error that a caller can act on.

    Raises: Unavailable.
    """
    where = f"s3://{address.bucket}/{address.prefix}{key}"
    try:
        yield
    except client_error() as error:
        code = refusal_code(error)
        raise Unavailable(
            f"S3 refused a request: {code}",
            certain=certain or (_status(error) in (400, 401, 403, 404) and code != ENDED),
            blob=where,
            reason=error.response.get("Error", {}).get("Message"),
            cure=_CURES.get(code),
        ) from error
    except RecursionError as error:  # botocore asks where to go, and is sent on again
        raise Unavailable(
            "S3 cannot be reached: the endpoint sends each request on to another address",
            certain=certain,
            blob=where,
            endpoint=address.endpoint,
            cure="name the address that it leads to, such as https:// in place of http://",
        ) from error
    except boto_errors() as error:
        raise Unavailable(
            "S3 cannot be reached",
            certain=certain,
            blob=where,
            reason=str(error),
            cure="check the endpoint, the network, and that AWS's ordinary chain has credentials",
        ) from error


def _number(options: dict[str, str], name: str, default: int, setting: str | None) -> int:
    text = options.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= 256:
        raise InvalidRequest(
            "this option of the address does not fit",
            setting=setting,
            option=name,
            value=text,
            cure="a whole number from 1 to 256",
        )
    return int(text)
