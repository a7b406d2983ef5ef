"""Numbers as people write them: by an example, or with a currency; what fits no form is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.source.number_forms import form_of

READ = {
    "1.234,56": {"1.234,56": "1234.56", "12,50": "12.50", "1234,5": "1234.5", "-12": "-12", "1.23": None,
                 "1,250.00": None, "12.50": None, "12,50 €": None},
    "12,50": {"12,50": "12.50", "1.250,00": None, "7": "7", "": None},
    "1 234,56 €": {"1\u202f234,56\u00a0€": "1234.56", "12,5": "12.5", "12 $": None, "1.234": None},
    "$1,234.56": {"$1,234.56": "1234.56", "-$5": "-5", "$-5": "-5", "-$-5": None, "1,23": None},
    "1'234.56": {"1’234.56": "1234.56", "1234": "1234"},
    "1.234.567": {"1.234": "1234", "1.234,5": None},
    "12 kg": {"12 kg": "12", "12": "12", "1.5 kg": None},
    "currency": {"12,50 €": "12.50", "€12.50": "12.50", "1.250,00 €": "1250.00", "$1,250.00": "1250.00",
                 "EUR 12.50": "12.50", "0,125 €": "0.125", "1 250 €": "1250", "CHF 1'250.–": "1250",
                 "kr 12": "12", "1,234,567": "1234567", "-12,50 €": "-12.50", "US$ 5": "5", "1250": "1250",
                 "1,250 €": None, "1.250": None, "12 kg": None, "12.5.3": None, "12 €/kg": None, "": None,
                 "from 12 €": None, "٣ €": None},
}  # fmt: skip


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in READ.items() for text in texts])
def test_a_text_is_the_number_that_its_form_says_or_none(form: str, text: str) -> None:
    assert form_of(form).plain(text) == READ[form][text]


@pytest.mark.parametrize("example", ["1.234", "1,250", "abc", "1,2,3", "1 2", "", "12,50,30", "1'2"])
def test_an_example_that_does_not_tell_what_it_means_is_refused(example: str) -> None:
    with pytest.raises(ValueError, match="an example"):
        form_of(example)


@given(st.decimals(-(10**9), 10**9, places=2), st.sampled_from([".,", ",.", " ,", "'."]))
def test_a_number_written_in_a_form_is_read_as_itself_by_it_and_as_nothing_else_by_a_currency(
    number: object, signs: str
) -> None:
    thousands, decimal = signs
    written = f"{number:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
    read = form_of(f"1{thousands}234{decimal}56").plain(written)
    assert read is not None
    assert float(read) == float(str(number))
    amount = form_of("currency").plain(f"{written} €")
    assert amount is None or float(amount) == float(str(number))
