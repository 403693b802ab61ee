// SPDX-License-Identifier: BSD-3-Clause
//
// A German-English corpus that needs no download: the names of numbers. A pair asks for segmentation (German writes a
// number below a million as one word) and reordering (German says the units before the tens), and it is right or
// wrong, so that its score is an accuracy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include <normplace/text/number_names.hpp>
#include <normplace/text/parallel_corpus.hpp>
#include <normplace/text/portable_random.hpp>

namespace normplace {

/// How training numbers are drawn.
enum class NumberSpread {
    digits,  ///< first the number of digits, then a number of so many: short names are there too
    uniform  ///< every number is as likely: nine in ten have all digits
};

/// The numbers are cut into intervals, [0, 1000), [1000, 2000), ...; a share of these, drawn from the seed, is kept for
/// validation, another for test, and training sees no number of either. So a model that has 23405 right has never seen
/// a name that begins with "dreiundzwanzigtausend": it has put it together. The first interval is always training's,
/// because what the others are put together from stands there.
struct NumberNamesOptions {
    std::uint64_t seed = 1;
    std::size_t training = 20000, validation = 500, test = 500;  ///< pairs
    std::uint64_t below = 1'000'000;                             ///< every number is
    std::uint64_t interval = 1000;                               ///< numbers in an interval
    double held_out = 0.05;  ///< of the intervals, for validation; and as many for test
    NumberSpread spread = NumberSpread::digits;
};

/// No number is in it twice.
struct NumberSets {
    std::vector<std::uint64_t> training, validation, test;
};

struct NumberNamesCorpus {
    ParallelCorpus training, validation, test;
};

namespace detail {

class NumberDraw {
public:
    explicit NumberDraw(const NumberNamesOptions& options) : options_(options), random_(options.seed) {
        const auto refuse = [](const std::string& sentence) {
            throw std::invalid_argument("number_names_corpus: " + sentence);
        };
        if (options.below == 0 || options.below > number_name_limit)
            refuse("numbers below " + std::to_string(options.below) + ", expected a limit from 1 to " +
                   std::to_string(number_name_limit));
        if (options.interval == 0) refuse("interval is 0, expected at least 1");
        if (!(options.held_out > 0.0 && options.held_out < 0.5))
            refuse("held_out is " + std::to_string(options.held_out) + ", expected a share in (0, 0.5)");
        const std::uint64_t intervals = (options.below - 1) / options.interval + 1;
        const std::string cut = "intervals of " + std::to_string(options.interval) + " cut the numbers below " +
                                std::to_string(options.below) + " into " + std::to_string(intervals);
        if (intervals < 3) refuse(cut + ", expected at least 3: for training, validation and test");
        if (intervals > 1'000'000) refuse(cut + ", expected at most 1000000");

        for (std::uint64_t i = 1; i < intervals; ++i) held_out_.push_back(i);
        random_.shuffle(held_out_);
        each_ = static_cast<std::size_t>(std::clamp(std::floor(options.held_out * static_cast<double>(intervals)), 1.0,
                                                    static_cast<double>((intervals - 1) / 2)));
        held_out_.resize(2 * each_);
        is_held_out_.resize(static_cast<std::size_t>(intervals));
        for (const std::uint64_t i : held_out_) is_held_out_[static_cast<std::size_t>(i)] = true;

        const std::uint64_t for_validation = numbers_in(0), for_test = numbers_in(each_);
        const auto require = [&](const char* what, std::size_t wanted, std::uint64_t there) {
            if (wanted > there)
                refuse(std::to_string(wanted) + " " + what + " pairs were asked for, but only " +
                       std::to_string(there) + " numbers below " + std::to_string(options.below) + " are for " + what);
        };
        require("training", options.training, options.below - for_validation - for_test);
        require("validation", options.validation, for_validation);
        require("test", options.test, for_test);
    }

    NumberSets draw() {
        const auto fill = [&](std::size_t count, auto&& next) {
            std::vector<std::uint64_t> numbers;
            while (numbers.size() < count) {
                const std::uint64_t number = next();
                if (number < options_.below && taken_.insert(number).second) numbers.push_back(number);
            }
            return numbers;
        };
        NumberSets sets;
        sets.training = fill(options_.training, [&] { return training_number(); });
        sets.validation = fill(options_.validation, [&] { return held_out_number(0); });
        sets.test = fill(options_.test, [&] { return held_out_number(each_); });
        return sets;
    }

private:
    std::uint64_t numbers_in(std::size_t first) const {
        std::uint64_t sum = 0;
        for (std::size_t i = first; i < first + each_; ++i)
            sum += std::min(options_.interval, options_.below - held_out_[i] * options_.interval);
        return sum;
    }
    std::uint64_t training_number() {
        for (;;) {
            const std::uint64_t number =
                options_.spread == NumberSpread::uniform ? random_.below(options_.below) : number_by_digits();
            if (!is_held_out_[static_cast<std::size_t>(number / options_.interval)]) return number;
        }
    }
    std::uint64_t number_by_digits() {
        std::uint64_t digits = random_.below(std::to_string(options_.below - 1).size()), first = 1;
        if (digits == 0) return random_.below(std::min<std::uint64_t>(10, options_.below));
        for (; digits > 0; --digits) first *= 10;
        return first + random_.below(std::min(10 * first, options_.below) - first);
    }
    std::uint64_t held_out_number(std::size_t first) {
        const std::uint64_t interval = held_out_[first + static_cast<std::size_t>(random_.below(each_))];
        return interval * options_.interval + random_.below(options_.interval);
    }

    NumberNamesOptions options_;
    PortableRandom random_;
    std::vector<std::uint64_t> held_out_;  // each_ intervals for validation, then as many for test
    std::vector<bool> is_held_out_;        // by interval
    std::size_t each_ = 0;
    std::unordered_set<std::uint64_t> taken_;
};

}  // namespace detail

/// The same on every platform for the same options. Validation and test are uniform over the numbers of their
/// intervals.
/// @throws std::invalid_argument when an option is out of its range, or a set has fewer numbers than asked for
inline NumberSets number_sets(const NumberNamesOptions& options = {}) { return detail::NumberDraw(options).draw(); }

/// The German (source) and English (target) names of number_sets(options).
inline NumberNamesCorpus number_names_corpus(const NumberNamesOptions& options = {}) {
    const auto named = [](const std::vector<std::uint64_t>& numbers) {
        ParallelCorpus corpus;
        for (const std::uint64_t number : numbers) {
            corpus.source.push_back(german_number(number));
            corpus.target.push_back(english_number(number));
        }
        return corpus;
    };
    const NumberSets sets = number_sets(options);
    return {named(sets.training), named(sets.validation), named(sets.test)};
}

/// The share, 0 to 1, of hypotheses that are their reference to the letter.
/// @throws std::invalid_argument when there are none, or not as many of each
inline double exact_match(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
    if (hypotheses.size() != references.size() || hypotheses.empty())
        throw std::invalid_argument("exact_match: " + std::to_string(hypotheses.size()) + " hypotheses and " +
                                    std::to_string(references.size()) +
                                    " references, expected as many of each and at least one");
    std::size_t right = 0;
    for (std::size_t i = 0; i < hypotheses.size(); ++i) right += hypotheses[i] == references[i];
    return static_cast<double>(right) / static_cast<double>(hypotheses.size());
}

}  // namespace normplace
