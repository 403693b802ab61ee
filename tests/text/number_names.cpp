// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstdint>
#include <normplace/text/number_names.hpp>
#include <sstream>
#include <string>
#include <vector>

using namespace normplace;

namespace {

constexpr const char* german_to_99 =
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn zwanzig einundzwanzig zweiundzwanzig dreiundzwanzig "
    "vierundzwanzig fünfundzwanzig sechsundzwanzig siebenundzwanzig achtundzwanzig neunundzwanzig dreißig "
    "einunddreißig zweiunddreißig dreiunddreißig vierunddreißig fünfunddreißig sechsunddreißig "
    "siebenunddreißig achtunddreißig neununddreißig vierzig einundvierzig zweiundvierzig dreiundvierzig "
    "vierundvierzig fünfundvierzig sechsundvierzig siebenundvierzig achtundvierzig neunundvierzig fünfzig "
    "einundfünfzig zweiundfünfzig dreiundfünfzig vierundfünfzig fünfundfünfzig sechsundfünfzig "
    "siebenundfünfzig achtundfünfzig neunundfünfzig sechzig einundsechzig zweiundsechzig dreiundsechzig "
    "vierundsechzig fünfundsechzig sechsundsechzig siebenundsechzig achtundsechzig neunundsechzig siebzig "
    "einundsiebzig zweiundsiebzig dreiundsiebzig vierundsiebzig fünfundsiebzig sechsundsiebzig "
    "siebenundsiebzig achtundsiebzig neunundsiebzig achtzig einundachtzig zweiundachtzig dreiundachtzig "
    "vierundachtzig fünfundachtzig sechsundachtzig siebenundachtzig achtundachtzig neunundachtzig neunzig "
    "einundneunzig zweiundneunzig dreiundneunzig vierundneunzig fünfundneunzig sechsundneunzig "
    "siebenundneunzig achtundneunzig neunundneunzig ";

constexpr const char* english_to_99 =
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four "
    "twenty-five twenty-six twenty-seven twenty-eight twenty-nine thirty thirty-one thirty-two "
    "thirty-three thirty-four thirty-five thirty-six thirty-seven thirty-eight thirty-nine forty "
    "forty-one forty-two forty-three forty-four forty-five forty-six forty-seven forty-eight forty-nine "
    "fifty fifty-one fifty-two fifty-three fifty-four fifty-five fifty-six fifty-seven fifty-eight "
    "fifty-nine sixty sixty-one sixty-two sixty-three sixty-four sixty-five sixty-six sixty-seven "
    "sixty-eight sixty-nine seventy seventy-one seventy-two seventy-three seventy-four seventy-five "
    "seventy-six seventy-seven seventy-eight seventy-nine eighty eighty-one eighty-two eighty-three "
    "eighty-four eighty-five eighty-six eighty-seven eighty-eight eighty-nine ninety ninety-one "
    "ninety-two ninety-three ninety-four ninety-five ninety-six ninety-seven ninety-eight ninety-nine ";

std::vector<std::string> words(const char* text) {
    std::istringstream stream(text);
    std::vector<std::string> result;
    for (std::string word; stream >> word;) result.push_back(word);
    return result;
}

}  // namespace

TEST_CASE("every number below 10000 is its thousand, its hundred and a listed name") {
    const std::vector<std::string> german = words(german_to_99), english = words(english_to_99);
    REQUIRE(german.size() == 100);
    REQUIRE(english.size() == 100);
    const std::vector<std::string> digits{"", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"};
    for (std::uint64_t n = 0; n < 10000; ++n) {
        const std::uint64_t thousand = n / 1000, hundred = n / 100 % 10, rest = n % 100;
        std::string in_german, in_english;
        if (thousand) in_german += digits[thousand] + "tausend", in_english += english[thousand] + " thousand ";
        if (hundred) in_german += digits[hundred] + "hundert", in_english += english[hundred] + " hundred ";
        if (rest || n == 0) in_german += german[rest], in_english += english[rest];
        if (in_english.back() == ' ') in_english.pop_back();
        REQUIRE(german_number(n) == in_german);
        REQUIRE(english_number(n) == in_english);
    }
}

TEST_CASE("above, the thousands and millions are named as numbers are") {
    CHECK(german_number(23405) == "dreiundzwanzigtausendvierhundertfünf");
    CHECK(english_number(23405) == "twenty-three thousand four hundred five");
    CHECK(german_number(21000) == "einundzwanzigtausend");
    CHECK(german_number(101000) == "einhunderteintausend");
    CHECK(german_number(101101) == "einhunderteintausendeinhunderteins");
    CHECK(german_number(777777) == "siebenhundertsiebenundsiebzigtausendsiebenhundertsiebenundsiebzig");
    CHECK(german_number(1000000) == "eine Million");
    CHECK(german_number(1000001) == "eine Million eins");
    CHECK(german_number(2001000) == "zwei Millionen eintausend");
    CHECK(german_number(21000017) == "einundzwanzig Millionen siebzehn");
    CHECK(german_number(101000000) == "einhunderteine Millionen");
    CHECK(german_number(999999999) ==
          "neunhundertneunundneunzig Millionen neunhundertneunundneunzigtausend"
          "neunhundertneunundneunzig");
    CHECK(english_number(100000) == "one hundred thousand");
    CHECK(english_number(1000001) == "one million one");
    CHECK(english_number(212030040) == "two hundred twelve million thirty thousand forty");
    for (const std::uint64_t thousands : {1u, 16u, 17u, 30u, 99u, 100u, 101u, 616u, 999u})
        CHECK(english_number(1000 * thousands + 7) == english_number(thousands) + " thousand seven");
}

TEST_CASE("a number above the largest is refused") {
    CHECK_THROWS_WITH_AS(german_number(1000000000), "german_number: 1000000000 is not below 1000000000",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(english_number(18446744073709551615u),
                         "english_number: 18446744073709551615 is not below 1000000000", std::invalid_argument);
}
