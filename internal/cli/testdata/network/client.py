"""Fetches in the three ways that the standard library has: KIND URL."""

import asyncio
import http.client
import ssl
import sys
import urllib.parse
import urllib.request

kind, url = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
port = parts.port or {"http": 80, "https": 443}[parts.scheme]
context = ssl.create_default_context() if parts.scheme == "https" else None


def urllib_request():
    return urllib.request.urlopen(url, timeout=20).read()


def http_client():
    if context:
        c = http.client.HTTPSConnection(parts.hostname, port, timeout=20, context=context)
    else:
        c = http.client.HTTPConnection(parts.hostname, port, timeout=20)
    c.request("GET", parts.path)
    return c.getresponse().read()


async def streams():
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.hostname}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n\r\n", 1)[1]


if kind == "asyncio":
    body = asyncio.run(streams())
else:
    body = {"urllib": urllib_request, "http.client": http_client}[kind]()
print(kind, body.decode(), end="")
