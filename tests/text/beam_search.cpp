// Beam search: against every sequence there is, a greedy loop and a beam search written without any care for speed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <normplace/text/beam_search.hpp>

using namespace normplace;

namespace {

constexpr int vocabulary = 4, begin = 0, end = 3;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Logits that depend on the sentence and on everything before: a number of the sentence, then the tokens.
class RandomModel {
public:
    explicit RandomModel(double end_logit = 0.0, double scale = 2.0) : end_logit_(end_logit), scale_(scale) {}

    std::vector<double> logits(const std::vector<int>& prefix) const {
        std::seed_seq seed(prefix.begin(), prefix.end());
        std::mt19937 random(seed);
        std::vector<double> row;
        for (int v = 0; v < vocabulary; ++v)
            row.push_back(scale_ * (static_cast<double>(random()) / 4294967296.0 - 0.5) + (v == end ? end_logit_ : 0));
        return row;
    }
    std::vector<double> log_probabilities(const std::vector<int>& prefix) const {
        std::vector<double> row = logits(prefix);
        double sum = 0.0;
        for (const double logit : row) sum += std::exp(logit);
        for (double& logit : row) logit -= std::log(sum);
        return row;
    }

private:
    double end_logit_, scale_;
};

/// What a model with cached keys and values is to a search: it sees the last tokens and keeps what was before.
struct Stepper {
    const RandomModel& model;
    std::vector<int> sentences;  // the first call's parents are indices of these
    std::vector<std::vector<int>> prefixes = {};
    std::size_t calls = 0, rows = 0;

    std::vector<double> operator()(const std::vector<int>& last, const std::vector<std::size_t>& parents) {
        REQUIRE(last.size() == parents.size());
        std::vector<std::vector<int>> next;
        std::vector<double> logits;
        for (std::size_t r = 0; r < last.size(); ++r) {
            if (calls == 0) {
                CHECK(last[r] == begin);
                next.push_back({sentences.at(parents[r])});
            } else {
                next.push_back(prefixes.at(parents[r]));
                next.back().push_back(last[r]);
            }
            const std::vector<double> row = model.logits(next.back());
            logits.insert(logits.end(), row.begin(), row.end());
        }
        prefixes = next;
        ++calls;
        rows += last.size();
        return logits;
    }
};

double score_of(double log_probability, std::size_t length, double alpha) {
    return log_probability / std::pow((5.0 + static_cast<double>(length)) / 6.0, alpha);
}

/// The best of all sequences that end within `longest` tokens.
Hypothesis best_of_all(const RandomModel& model, int sentence, std::size_t longest, double alpha) {
    Hypothesis best{{}, 0.0, -infinity, false};
    const auto extend = [&](const auto& self, std::vector<int> prefix, double log_probability) -> void {
        const std::size_t length = prefix.size();  // with the sentence's number for the end
        if (length > longest) return;
        const std::vector<double> row = model.log_probabilities(prefix);
        const double score = score_of(log_probability + row[end], length, alpha);
        if (score > best.score) best = {{prefix.begin() + 1, prefix.end()}, log_probability + row[end], score, true};
        for (int v = 0; v < end; ++v) {
            std::vector<int> longer = prefix;
            longer.push_back(v);
            self(self, longer, log_probability + row[static_cast<std::size_t>(v)]);
        }
    };
    extend(extend, {sentence}, 0.0);
    return best;
}

/// The rules of beam_search in their plainest form: every candidate, sorted.
std::vector<Hypothesis> plain_beam(const RandomModel& model, int sentence, std::size_t longest, double alpha,
                                   std::size_t beam) {
    using Scored = std::pair<double, std::vector<int>>;  // minus log P; the sentence's number and the tokens
    std::vector<Scored> live{{0.0, {sentence}}};
    std::vector<Hypothesis> done;
    for (std::size_t length = 1; length <= longest; ++length) {
        std::vector<Scored> candidates, next;
        for (const auto& [cost, prefix] : live) {
            const std::vector<double> row = model.log_probabilities(prefix);
            for (int v = 0; v < vocabulary; ++v) {
                candidates.push_back({cost - row[static_cast<std::size_t>(v)], prefix});
                candidates.back().second.push_back(v);
            }
        }
        std::sort(candidates.begin(), candidates.end());
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            auto& [cost, prefix] = candidates[i];
            if (prefix.back() != end) {
                if (next.size() < beam) next.push_back(candidates[i]);
            } else if (i < beam) {
                done.push_back({{prefix.begin() + 1, prefix.end() - 1}, -cost, score_of(-cost, length, alpha), true});
            }
        }
        live = next;
        std::stable_sort(done.begin(), done.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
        if (done.size() >= beam) break;
        if (!done.empty() && done.front().score >= score_of(-live.front().first, longest, alpha)) break;
    }
    if (done.empty())
        for (const auto& [cost, prefix] : live)
            done.push_back({{prefix.begin() + 1, prefix.end()}, -cost, score_of(-cost, longest, alpha), false});
    if (done.size() > beam) done.resize(beam);
    return done;
}

void check_same(const std::vector<Hypothesis>& ours, const std::vector<Hypothesis>& expected) {
    REQUIRE(ours.size() == expected.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
        CHECK(ours[i].tokens == expected[i].tokens);
        CHECK(ours[i].log_probability == doctest::Approx(expected[i].log_probability).epsilon(1e-13));
        CHECK(ours[i].score == doctest::Approx(expected[i].score).epsilon(1e-13));
        CHECK(ours[i].ended == expected[i].ended);
    }
}

std::vector<Hypothesis> search(const RandomModel& model, int sentence, std::size_t longest, double alpha,
                               std::size_t beam) {
    return beam_search(Stepper{model, {sentence}}, {longest}, {begin, end, beam, alpha}).at(0);
}

/// The same logits at every step and in every row.
template <class T>
auto constant(std::vector<T> row) {
    return [row](const std::vector<int>& last, const std::vector<std::size_t>&) {
        std::vector<T> logits;
        for (std::size_t r = 0; r < last.size(); ++r) logits.insert(logits.end(), row.begin(), row.end());
        return logits;
    };
}

}  // namespace

TEST_CASE("with room for everything it finds the best of all sequences") {
    std::map<std::size_t, int> lengths;
    for (const double alpha : {0.0, 0.6, 1.0, 3.0})
        for (const double end_logit : {0.0, -2.0})
            for (int sentence = 0; sentence < 25; ++sentence) {
                const RandomModel model(end_logit);
                const std::vector<Hypothesis> found = search(model, sentence, 6, alpha, 5000);
                check_same({found.at(0)}, {best_of_all(model, sentence, 6, alpha)});
                ++lengths[found.at(0).tokens.size()];
            }
    CHECK(lengths.size() == 6);  // the best have every length from 0 to 5
}

TEST_CASE("a beam of 1 is greedy") {
    for (const double end_logit : {0.0, -1.5})
        for (int sentence = 0; sentence < 20; ++sentence) {
            const RandomModel model(end_logit);
            std::vector<int> prefix{sentence};
            bool ended = false;
            while (!ended && prefix.size() <= 8) {
                const std::vector<double> row = model.logits(prefix);
                const int best = static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
                ended = best == end;
                if (!ended) prefix.push_back(best);
            }
            const std::vector<Hypothesis> found = search(model, sentence, 8, 1.0, 1);
            REQUIRE(found.size() == 1);
            CHECK(found[0].tokens == std::vector<int>(prefix.begin() + 1, prefix.end()));
            CHECK(found[0].ended == ended);
        }
}

TEST_CASE("a beam in between is what its rules say, and better than greedy") {
    int better = 0, cut = 0, several = 0;
    for (const double alpha : {0.0, 0.6, 2.0})
        for (const double end_logit : {0.0, -2.0, -5.0})
            for (const std::size_t beam : {2u, 3u, 7u})
                for (int sentence = 0; sentence < 10; ++sentence) {
                    CAPTURE(beam);
                    CAPTURE(sentence);
                    const RandomModel model(end_logit);
                    const std::vector<Hypothesis> found = search(model, sentence, 7, alpha, beam);
                    check_same(found, plain_beam(model, sentence, 7, alpha, beam));
                    const Hypothesis greedy = search(model, sentence, 7, alpha, 1).at(0);
                    better += greedy.ended && found[0].score > greedy.score + 1e-9;
                    cut += !found[0].ended;
                    several += found.size() > 1;
                }
    CHECK(better > 20);
    CHECK(cut > 20);
    CHECK(several > 20);
}

TEST_CASE("a sentence's result depends on nothing else in its batch") {
    const RandomModel model(-1.0);
    const std::vector<int> sentences{5, 3, 5, 8, 1, 13};
    const std::vector<std::size_t> longest{7, 2, 9, 0, 1, 4};  // they are done at different times
    for (const std::size_t beam : {1u, 3u}) {
        const BeamSearchOptions options{begin, end, beam, 0.6};
        const auto together = beam_search(Stepper{model, sentences}, longest, options);
        REQUIRE(together.size() == sentences.size());
        for (std::size_t s = 0; s < sentences.size(); ++s) {
            const auto alone = search(model, sentences[s], longest[s], 0.6, beam);
            REQUIRE(together[s].size() == alone.size());
            for (std::size_t i = 0; i < alone.size(); ++i) {
                CHECK(together[s][i].tokens == alone[i].tokens);
                CHECK(together[s][i].score == alone[i].score);
            }
        }
        CHECK(together[3].at(0).tokens.empty());
        CHECK_FALSE(together[3].at(0).ended);
        CHECK(together[1].at(0).tokens.size() <= 2);
    }
    CHECK(beam_search(Stepper{model, {}}, {}, {begin, end}).empty());
}

TEST_CASE("equal scores are decided by the lower token, then by the better hypothesis before") {
    const auto tokens = [](const std::vector<std::vector<Hypothesis>>& results) {
        std::vector<std::vector<int>> all;
        for (const Hypothesis& hypothesis : results.at(0)) all.push_back(hypothesis.tokens);
        return all;
    };
    using Sequences = std::vector<std::vector<int>>;
    // The end is impossible, everything else alike.
    const std::vector<float> flat{0, 0, 0, -std::numeric_limits<float>::infinity()};
    CHECK(tokens(beam_search(constant(flat), {2}, {begin, end, 4, 0.6})) == Sequences{{0, 0}, {1, 0}, {2, 0}, {0, 1}});
    CHECK(tokens(beam_search(constant(flat), {3}, {begin, end, 1, 0.6})) == Sequences{{0, 0, 0}});
    // The end is token 0, and as likely as the others: it is the lower one.
    const std::vector<float> ends{0, 0, 0};
    CHECK(tokens(beam_search(constant(ends), {3}, {1, 0, 1, 0.6})) == Sequences{{}});
    // The end is the last token: two others come before it.
    CHECK(tokens(beam_search(constant(ends), {2}, {0, 2, 2, 0.0})) == Sequences{{0, 0}, {1, 0}});
    CHECK(tokens(beam_search(constant(ends), {2}, {0, 2, 3, 0.0})) == Sequences{{}});
}

TEST_CASE("it stops when nothing better can come") {
    const RandomModel likely_end(6.0);
    Stepper stepper{likely_end, {1}};
    CHECK(beam_search(stepper, {50}, {begin, end, 4, 0.0}).at(0).at(0).tokens.empty());
    CHECK(stepper.calls == 1);
    // With a length penalty a long one might still win, until as many as the beam has have ended.
    const RandomModel any_end(0.0);
    Stepper patient{any_end, {1}};
    const auto found = beam_search(patient, {50}, {begin, end, 4, 1.0});
    CHECK(found.at(0).size() == 4);
    CHECK(patient.calls > 2);
    CHECK(patient.calls < 10);
    CHECK(patient.rows == 1 + 3 + 4 * (patient.calls - 2));
}

TEST_CASE("log probabilities are the model's, in float as well and however large the logits") {
    const std::vector<float> row{1000.0f, 999.0f, 998.0f, -std::numeric_limits<float>::infinity()};
    const Hypothesis found = beam_search(constant(row), {3}, {begin, end, 2, 1.0}).at(0).at(0);
    const double expected = -3.0 * std::log(1.0 + std::exp(-1.0) + std::exp(-2.0));
    CHECK(found.log_probability == doctest::Approx(expected).epsilon(1e-6));
    CHECK(found.score == doctest::Approx(expected / (8.0 / 6.0)).epsilon(1e-6));
    CHECK(found.tokens == std::vector<int>{0, 0, 0});
    // What step gives may be a reference to its own memory.
    const std::vector<double> own{0.0, 1.0};
    const auto step = [&](const std::vector<int>&, const std::vector<std::size_t>&) -> const std::vector<double>& {
        return own;
    };
    CHECK(beam_search(step, {4}, {0, 1, 1}).at(0).at(0).ended);
}

TEST_CASE("wrong arguments and logits are refused with their values") {
    const auto search = [](std::vector<double> row, const BeamSearchOptions& options) {
        return beam_search(constant(row), {3, 3}, options);
    };
    const std::vector<double> row{0.0, 1.0, 2.0};
    CHECK_THROWS_WITH(search(row, {0, 2, 0}), "beam_search: beam is 0, expected at least 1");
    CHECK_THROWS_WITH(search(row, {0, 2, 1, -0.5}), "beam_search: length_penalty is -0.500000, expected at least 0");
    CHECK_THROWS_WITH(search(row, {0, 2, 1, std::nan("")}), "beam_search: length_penalty is nan, expected at least 0");
    CHECK_THROWS_WITH(search(row, {0, 3}), "beam_search: end 3 is not in a vocabulary of 3");
    CHECK_THROWS_WITH(search(row, {0, -1}), "beam_search: end -1 is not in a vocabulary of 3");
    CHECK_THROWS_WITH(search({}, {0, 0}), "beam_search: step gave 0 logits for 2 rows");
    const auto odd = [](const std::vector<int>&, const std::vector<std::size_t>&) { return std::vector<float>(7); };
    CHECK_THROWS_WITH(beam_search(odd, {3, 3}, {0, 2}), "beam_search: step gave 7 logits for 2 rows");
    for (const double bad : {std::nan(""), infinity})
        for (std::size_t at = 0; at < 3; ++at) {
            const auto step = [&](const std::vector<int>& last, const std::vector<std::size_t>&) {
                std::vector<double> logits(3 * last.size());
                if (last.size() > 2) logits[9 + at] = bad;
                return logits;
            };
            CHECK_THROWS_WITH(beam_search(step, {3, 3}, {0, 2, 2}),
                              "beam_search: the logits of row 3 after 1 tokens are no distribution");
        }
    CHECK_THROWS_WITH(search({-infinity, -infinity, -infinity}, {0, 2}),
                      "beam_search: the logits of row 0 after 0 tokens are no distribution");
}
