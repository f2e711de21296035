"""Certificates for servers and clients on loopback."""

import ssl

import trustme


class Papers:
    """One authority, a server's certificate by it, a client's certificate by it."""

    def __init__(self, *names: str) -> None:
        self.authority = trustme.CA()
        self._server = self.authority.issue_cert(*(names or ("127.0.0.1",)))
        self._client = self.authority.issue_cert("me@example.com", common_name="me")

    @property
    def authority_data(self) -> bytes:
        return self.authority.cert_pem.bytes()

    @property
    def client_certificate(self) -> bytes:
        return b"".join(blob.bytes() for blob in self._client.cert_chain_pems)

    @property
    def client_key(self) -> bytes:
        return self._client.private_key_pem.bytes()

    def server_context(self, client_needed: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.configure_cert(context)
        if client_needed:
            self.authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context
