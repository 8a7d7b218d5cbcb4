"""Codes of languages that people write into file names: ISO 639-1, and the three letters of ISO 639-2 for the same."""

from __future__ import annotations

_TWO = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es et
eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk
kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny
oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk
tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_THREE = """
afr alb amh ara arm aze baq bel ben bos bul bur cat ces chi cmn cym cze dan deu dut ell eng epo est eus fao fas fil fin
fra fre geo ger gle glg gre grc guj hau heb hin hrv hun hye ibo ice ind isl ita jav jpn kan kat kaz khm kir kor
kur lao lat lav lit ltz mac mal mao mar may mkd mlt mon mri msa mya nep nld nno nob nor pan per pol por pus que ron rum
rus san scc scr sin slk slo slv som spa sqi srp sun swa swe tam tat tel tgk tgl tha tib tuk tur ukr urd uzb vie wel xho
yid yor yue zho zul
"""
_CODES = frozenset((_TWO + _THREE).split())


def is_language(code: str) -> bool:
    """Whether ``code``, in any case, is that of a language."""
    return code.casefold() in _CODES
