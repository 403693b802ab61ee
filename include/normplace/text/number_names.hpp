// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers in words: "dreiundzwanzigtausendvierhundertfünf" and "twenty-three thousand four hundred five". See
// number_names_corpus.hpp for what they are good for.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace normplace {

/// The names reach to one below this.
inline constexpr std::uint64_t number_name_limit = 1'000'000'000;

namespace detail {

inline void require_nameable(const char* who, std::uint64_t number) {
    if (number >= number_name_limit)
        throw std::invalid_argument(std::string(who) + ": " + std::to_string(number) + " is not below " +
                                    std::to_string(number_name_limit));
}

/// Of 0 < number < 1000. `one` is what a 1 at the end is called: "eins" by itself, "ein" before "tausend", "eine"
/// before "Million".
inline std::string german_below_thousand(std::uint64_t number, const char* one) {
    static constexpr std::array<const char*, 20> small{
        "",     "ein", "zwei",  "drei",     "vier",     "fünf",     "sechs",    "sieben",   "acht",     "neun",
        "zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
    static constexpr std::array<const char*, 10> tens{"",        "",        "zwanzig", "dreißig", "vierzig",
                                                      "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};
    std::string name;
    if (number >= 100) name = std::string(small[number / 100]) + "hundert";
    const std::uint64_t rest = number % 100;
    if (rest == 1) return name + one;
    if (rest < 20) return name + small[rest];
    if (rest % 10) name += std::string(small[rest % 10]) + "und";
    return name + tens[rest / 10];
}

/// Of 0 < number < 1000.
inline std::string english_below_thousand(std::uint64_t number) {
    static constexpr std::array<const char*, 20> small{
        "",    "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
        "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
    static constexpr std::array<const char*, 10> tens{"",      "",      "twenty",  "thirty", "forty",
                                                      "fifty", "sixty", "seventy", "eighty", "ninety"};
    std::string name;
    if (number >= 100) name = std::string(small[number / 100]) + " hundred";
    const std::uint64_t rest = number % 100;
    if (rest == 0) return name;
    if (!name.empty()) name += ' ';
    if (rest < 20) return name + small[rest];
    name += tens[rest / 10];
    return rest % 10 ? name + "-" + small[rest % 10] : name;
}

}  // namespace detail

/// In UTF-8: "null", "einhunderteins", "eintausend", "eine Million zweihundertausend...". The hundred and the thousand
/// always have their number before them.
/// @throws std::invalid_argument when the number is not below 10^9
inline std::string german_number(std::uint64_t number) {
    detail::require_nameable("german_number", number);
    if (number == 0) return "null";
    const std::uint64_t millions = number / 1'000'000, thousands = number / 1000 % 1000, rest = number % 1000;
    std::string name;
    if (millions) name = detail::german_below_thousand(millions, "eine") + (millions == 1 ? " Million" : " Millionen");
    if (millions && number % 1'000'000) name += ' ';
    if (thousands) name += detail::german_below_thousand(thousands, "ein") + "tausend";
    return rest ? name + detail::german_below_thousand(rest, "eins") : name;
}

/// Without "and" and commas: "zero", "one hundred one", "two million three hundred thousand forty-five".
/// @throws std::invalid_argument when the number is not below 10^9
inline std::string english_number(std::uint64_t number) {
    detail::require_nameable("english_number", number);
    if (number == 0) return "zero";
    std::string name;
    const auto add = [&](std::uint64_t part, const char* unit) {
        if (part == 0) return;
        if (!name.empty()) name += ' ';
        name += detail::english_below_thousand(part) + unit;
    };
    add(number / 1'000'000, " million");
    add(number / 1000 % 1000, " thousand");
    add(number % 1000, "");
    return name;
}

}  // namespace normplace
