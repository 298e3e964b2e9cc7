"""Signing a request for an object store, by AWS's own published examples."""

from benchrun_client.datasets.files import Credentials, signed_headers

EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


def test_the_example_of_aws_documentation_gets_its_signature() -> None:
    # "Signature Calculations for the Authorization Header", example GET Object.
    headers = signed_headers(
        "https://examplebucket.s3.amazonaws.com/test.txt",
        EXAMPLE,
        region="us-east-1",
        timestamp="20130524T000000Z",
        headers={"Range": "bytes=0-9"},
    )
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_a_session_token_is_sent_and_signed() -> None:
    credentials = Credentials("key", "secret", "token")
    headers = signed_headers("http://store:9000/b/k", credentials, region="r", timestamp="20260101T000000Z")
    assert (headers["x-amz-security-token"], headers["host"]) == ("token", "store:9000")
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token," in headers["authorization"]
