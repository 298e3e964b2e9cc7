"""What of a drawing may stand in a page."""

import pytest
from benchrun.report.html.svg import UnsafeSvg, inline_svg
from unit.golden_messages import golden

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="10" height="8"'


def cleaned(body: str, *, prefix: str = "c1-", label: str = "a chart") -> str:
    return inline_svg(f"{HEAD}>{body}</svg>", prefix=prefix, label=label)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("<script>alert(1)</script>", id="script"),
        pytest.param("<foreignObject><p/></foreignObject>", id="html"),
        pytest.param('<image href="data:image/png;base64,AA=="/>', id="image"),
        pytest.param('<a href="javascript:alert(1)"><path d="M0"/></a>', id="link"),
        pytest.param("<style>*{}</style>", id="style"),
        pytest.param('<use href="#x"/>', id="use"),
        pytest.param(
            '<path d="M0" fill="url(http://elsewhere/x)"/>',
            id="fill from elsewhere",
        ),
        pytest.param(
            '<path d="M0" clip-path="URL(//elsewhere#x)"/>',
            id="clip from elsewhere",
        ),
        pytest.param(
            '<path d="M0" stroke="image-set(x)"/>', id="function as a colour"
        ),
        pytest.param("<!-- x -->", id="comment"),
        pytest.param("<![CDATA[x]]>", id="cdata"),
    ],
)
def test_an_unused_chart_feature_is_rejected(body: str) -> None:
    with pytest.raises(UnsafeSvg):
        cleaned(body)


def test_entities_are_rejected() -> None:
    with pytest.raises(UnsafeSvg):
        inline_svg(
            '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
            prefix="",
            label="",
        )


def test_an_invalid_drawing_is_rejected() -> None:
    for text in ("<g/>", "<p>no</p>", "not even XML", ""):
        with pytest.raises(UnsafeSvg):
            inline_svg(text, prefix="", label="")


@pytest.mark.parametrize(
    "attribute", ["onclick", "style", "href", "class", "onload"]
)
def test_attributes_that_do_something_are_dropped(attribute: str) -> None:
    assert attribute not in cleaned(f'<path d="M0" {attribute}="alert(1)"/>')


def test_identifiers_of_charts_on_one_page_differ() -> None:
    body = '<defs><clipPath id="clip0"><rect width="1"/></clipPath></defs><g clip-path="url(#clip0)"><path d="M0"/></g>'
    assert 'id="c1-clip0"' in cleaned(body)
    assert 'clip-path="url(#c1-clip0)"' in cleaned(body)
    assert "c2-clip0" in cleaned(body, prefix="c2-")


def test_the_drawing_is_one_picture_with_a_name() -> None:
    golden(cleaned("", label='1 < 2 & "x"'))


def test_what_a_mark_says_of_itself_becomes_its_title() -> None:
    golden(cleaned('<path d="M0" aria-label="p99 &lt; 5 ms"/>'))


def test_text_stays_text() -> None:
    assert "<text>&lt;b&gt;</text>" in cleaned("<text>&lt;b&gt;</text>")


def test_colours_of_the_page_stay() -> None:
    assert 'fill="var(--blue)"' in cleaned('<path d="M0" fill="var(--blue)"/>')


def test_empty_charts_are_left_out() -> None:
    assert "<g" not in cleaned('<g><g><path fill="red"/></g></g>')
