"""What a comparison finds: servers of the two sides that are not alike, without anybody's purpose.

No record shows it. It is looked for where a run is compared with its baseline.
"""

from collections.abc import Mapping, Sequence

from benchrun.api import ComparedSetting
from benchrun.judge.comparison import settings
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import Code, Evidence, Sentence, StageFinding

MAX_LISTED = 8  # Most differences that the evidence has.


def unequal_servers(
    load_point: str, found: Sequence[ComparedSetting], baseline: str
) -> list[StageFinding]:
    """Return the findings on how the servers of a run differ from those of its baseline.

    They are noted at this load point, the run's first.
    """
    findings = []
    engine = next((e for e in found if e.setting == settings.WHICH_ENGINE), None)
    if engine is not None and engine.word == "Differs":
        of_engines: Evidence = {
            "baseline": baseline,
            "baselineEngine": engine.baseline,
            "engine": engine.value,
            **_counted(found),
        }
        findings.append(
            StageFinding(Code.ENGINES_UNEQUAL, "Note", load_point, of_engines)
        )
    if left := settings.unequal(found):
        of_settings: Evidence = {
            "baseline": baseline,
            **_counted(found),
            "changesAnswers": sum("Answers" in each.changes for each in left),
            "differences": "; ".join(
                f"{each.setting} {each.value}, not {each.baseline}"
                for each in left[:MAX_LISTED]
            ),
        }
        findings.append(
            StageFinding(Code.SETTINGS_UNEQUAL, "Note", load_point, of_settings)
        )
    return findings


def _counted(found: Sequence[ComparedSetting]) -> Mapping[str, int]:
    """Count settings, the engine aside, by what is known of them."""
    others = [each for each in found if each.setting != settings.WHICH_ENGINE]
    differing = [each for each in others if each.word == "Differs"]
    return {
        "same": sum(each.word == "Same" for each in others),
        "unequal": sum(not each.on_purpose for each in differing),
        "onPurpose": sum(each.on_purpose for each in differing),
        "knownOfOneSide": sum(each.is_half_known for each in others),
    }


SENTENCES: Mapping[Code, Sentence] = {
    Code.ENGINES_UNEQUAL: (
        "The servers run {engine}, those of the baseline {baseline} run {baselineEngine}. Of the "
        "settings {same} are the same, {unequal} differ without purpose, {onPurpose} differ on "
        "purpose, and {knownOfOneSide} are known of one side only."
    ),
    Code.SETTINGS_UNEQUAL: (
        "Settings that differ from the baseline {baseline}, although the specs do not: {unequal} "
        "({differences})."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.ENGINES_UNEQUAL: needs(Input.BOTH_SETTINGS),
    Code.SETTINGS_UNEQUAL: needs(Input.BOTH_SETTINGS),
}
