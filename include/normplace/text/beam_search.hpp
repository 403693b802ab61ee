// SPDX-License-Identifier: BSD-3-Clause
//
// Beam search for the most probable continuations of a batch of sentences, by any model that scores the next token.
// With a beam of 1 it is greedy decoding. A sentence's result depends on nothing else in its batch, as long as the
// model's does not.
//
// Hypotheses of length n (the tokens predicted, the end among them) are compared by log P / lp(n), with the length
// penalty lp(n) = ((5 + n) / 6)^alpha of Wu et al. 2016 (arXiv:1609.08144, section 7).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace normplace {

struct BeamSearchOptions {
    int begin = 0;                ///< the token before the first
    int end = 0;                  ///< the token after the last
    std::size_t beam = 4;         ///< hypotheses of a sentence that go on
    double length_penalty = 0.6;  ///< alpha, at least 0; 0 compares probabilities as they are, 1 favours long ones
};

struct Hypothesis {
    std::vector<int> tokens;       ///< without begin and end
    double log_probability = 0.0;  ///< of the tokens, and of the end if there is one
    double score = 0.0;            ///< log_probability / lp(length)
    bool ended = false;            ///< false: cut at the longest length, without an end
};

namespace detail {

/// A hypothesis of a sentence, `from`, and the token that would follow it.
struct BeamCandidate {
    double log_probability = 0.0;
    int token = 0;
    std::size_t from = 0;

    bool operator<(const BeamCandidate& other) const {  // is better; equal ones have an order too
        if (log_probability != other.log_probability) return log_probability > other.log_probability;
        return token != other.token ? token < other.token : from < other.from;
    }
};

/// The search of one sentence.
class BeamOfSentence {
public:
    BeamOfSentence(const BeamSearchOptions& options, std::size_t longest) : options_(options), longest_(longest) {
        live_.push_back({{}, 0.0});
        if (longest == 0) cut();
    }

    struct Live {
        std::vector<int> tokens;
        double log_probability = 0.0;
        std::size_t from = 0;  // the one of the last step that it continues
    };
    const std::vector<Live>& live() const { return live_; }

    /// Adds what may follow live()[from]. `log_total`: of the sum of exp(logit).
    template <class T>
    void offer(std::size_t from, const T* logits, std::size_t vocabulary, double log_total) {
        const double before = live_[from].log_probability;
        for (std::size_t v = 0; v < vocabulary; ++v) {
            const BeamCandidate candidate{before + (static_cast<double>(logits[v]) - log_total), static_cast<int>(v),
                                          from};
            if (candidate.log_probability == -std::numeric_limits<double>::infinity()) continue;
            if (candidate.token == options_.end) {
                ending_.push_back(candidate);
            } else if (going_on_.size() < options_.beam) {
                going_on_.push_back(candidate);
                std::push_heap(going_on_.begin(), going_on_.end());
            } else if (candidate < going_on_.front()) {  // the worst of those that are kept
                std::pop_heap(going_on_.begin(), going_on_.end());
                going_on_.back() = candidate;
                std::push_heap(going_on_.begin(), going_on_.end());
            }
        }
    }

    /// One token further: the best `beam` that do not end live on, and those that end among the best `beam` of all are
    /// done.
    void advance() {
        ++length_;
        std::sort(going_on_.begin(), going_on_.end());
        std::sort(ending_.begin(), ending_.end());
        std::size_t ahead = 0;  // of those that go on
        for (std::size_t rank = 0; rank < ending_.size(); ++rank) {
            while (ahead < going_on_.size() && going_on_[ahead] < ending_[rank]) ++ahead;
            if (ahead + rank >= options_.beam) break;
            done_.push_back(hypothesis(live_[ending_[rank].from].tokens, ending_[rank].log_probability, true));
        }
        std::vector<Live> next;
        for (const BeamCandidate& candidate : going_on_) {
            next.push_back({live_[candidate.from].tokens, candidate.log_probability, candidate.from});
            next.back().tokens.push_back(candidate.token);
        }
        live_ = std::move(next);
        going_on_.clear();
        ending_.clear();
        if (done_.size() >= options_.beam || nothing_better_can_come()) live_.clear();
        else if (length_ == longest_) cut();
    }

    /// Best first; of equal ones, the shorter.
    std::vector<Hypothesis> result() && {
        std::stable_sort(done_.begin(), done_.end(),
                         [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
        if (done_.size() > options_.beam) done_.resize(options_.beam);
        return std::move(done_);
    }

private:
    double penalty(std::size_t length) const {
        return std::pow((5.0 + static_cast<double>(length)) / 6.0, options_.length_penalty);
    }
    Hypothesis hypothesis(const std::vector<int>& tokens, double log_probability, bool ended) const {
        return {tokens, log_probability, log_probability / penalty(length_), ended};
    }
    /// log P only falls, and counts least at the greatest length.
    bool nothing_better_can_come() const {
        if (live_.empty() || done_.empty()) return false;
        const double most = live_.front().log_probability / penalty(longest_);
        return std::any_of(done_.begin(), done_.end(), [&](const Hypothesis& done) { return done.score >= most; });
    }
    /// The longest length is reached: what has not ended is worth giving only when nothing has.
    void cut() {
        if (done_.empty())
            for (const Live& live : live_) done_.push_back(hypothesis(live.tokens, live.log_probability, false));
        live_.clear();
    }

    BeamSearchOptions options_;
    std::size_t longest_, length_ = 0;
    std::vector<Live> live_;  // best first
    std::vector<BeamCandidate> going_on_, ending_;
    std::vector<Hypothesis> done_;
};

/// log sum_v exp(logit_v); NaN or infinite when the logits are no distribution.
template <class T>
double log_total(const T* logits, std::size_t vocabulary) {
    const T largest = *std::max_element(logits, logits + vocabulary);
    double sum = 0.0;
    for (std::size_t v = 0; v < vocabulary; ++v) sum += static_cast<double>(std::exp(logits[v] - largest));
    return static_cast<double>(largest) + std::log(sum);
}

inline void require_beam(bool condition, const std::string& sentence) {
    if (!condition) throw std::invalid_argument("beam_search: " + sentence);
}

}  // namespace detail

/// For each sentence up to `beam` hypotheses, best first. A sentence is done when `beam` of its hypotheses have ended,
/// when none that goes on can beat the best that has ended, or at its longest length; hypotheses that are cut there are
/// given only when none has ended. Equal scores are decided by the lower token, then by the better hypothesis before.
///
/// `step(last, parents)` gives logits (R, V), row-major, in anything that has data() and size(): what follows R
/// hypotheses, those of all sentences that are not done, in the order of the sentences. `last[r]`
/// (`std::vector<int>`) is the token that hypothesis r ends with, and `parents[r]` (`std::vector<std::size_t>`) the row
/// of the call before that it continues, so that a model can reorder the keys and values that it keeps. In the first
/// call, where each sentence has one, `last` is `begin`, and `parents` are the sentences. Logits may be minus infinity.
///
/// @param longest for each sentence, the largest number of tokens to predict, the end among them
/// @throws std::invalid_argument when the beam is 0, the length penalty negative, the end not in the vocabulary, or
/// what step gives is not R rows, or holds a row with NaN, plus infinity or nothing but minus infinity
template <class Step>
std::vector<std::vector<Hypothesis>> beam_search(Step&& step, const std::vector<std::size_t>& longest,
                                                 const BeamSearchOptions& options) {
    detail::require_beam(options.beam > 0, "beam is 0, expected at least 1");
    detail::require_beam(options.length_penalty >= 0.0 && std::isfinite(options.length_penalty),
                         "length_penalty is " + std::to_string(options.length_penalty) + ", expected at least 0");
    std::vector<detail::BeamOfSentence> sentences;
    for (const std::size_t length : longest) sentences.emplace_back(options, length);

    std::vector<int> last;
    std::vector<std::size_t> parents, first_rows(longest.size());
    for (std::size_t s = 0; s < longest.size(); ++s) first_rows[s] = s;
    for (std::size_t length = 0;; ++length) {
        last.clear();
        parents.clear();
        for (std::size_t s = 0; s < sentences.size(); ++s) {
            const std::size_t first_row = last.size();
            for (const auto& live : sentences[s].live()) {
                last.push_back(live.tokens.empty() ? options.begin : live.tokens.back());
                parents.push_back(first_rows[s] + live.from);
            }
            first_rows[s] = first_row;
        }
        const std::size_t rows = last.size();
        if (rows == 0) break;

        const auto& logits = step(std::as_const(last), std::as_const(parents));
        const std::size_t size = std::size(logits), vocabulary = size / rows;
        detail::require_beam(size > 0 && size % rows == 0,
                             "step gave " + std::to_string(size) + " logits for " + std::to_string(rows) + " rows");
        detail::require_beam(
            options.end >= 0 && static_cast<std::size_t>(options.end) < vocabulary,
            "end " + std::to_string(options.end) + " is not in a vocabulary of " + std::to_string(vocabulary));
        std::size_t row = 0;
        for (detail::BeamOfSentence& sentence : sentences) {
            const std::size_t hypotheses = sentence.live().size();
            for (std::size_t h = 0; h < hypotheses; ++h, ++row) {
                const auto* of_row = std::data(logits) + row * vocabulary;
                const double total = detail::log_total(of_row, vocabulary);
                detail::require_beam(std::isfinite(total), "the logits of row " + std::to_string(row) + " after " +
                                                               std::to_string(length) + " tokens are no distribution");
                sentence.offer(h, of_row, vocabulary, total);
            }
            if (hypotheses) sentence.advance();
        }
    }
    std::vector<std::vector<Hypothesis>> results;
    for (detail::BeamOfSentence& sentence : sentences) results.push_back(std::move(sentence).result());
    return results;
}

}  // namespace normplace
