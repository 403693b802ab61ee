// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <normplace/detail/table_text.hpp>
#include <normplace/nn/blas_description.hpp>

#include "../paragraph.hpp"
#include "../shared/name_width.hpp"
#include "files.hpp"

namespace warmup {

namespace np = normplace;
using np::detail::formatted;
using np::detail::left;
using np::detail::right;

namespace {

/// Three significant digits.
std::string three_digits(double value) {
    if (std::abs(value) >= 0.01 && std::abs(value) < 1e6)
        return formatted(std::abs(value) < 1e3 ? "%.3g" : "%.0f", value);
    return np::detail::number(value, 4);
}

/// There may be no step that does it.
std::string rate(double value) { return std::isinf(value) ? "never" : three_digits(value); }

std::string with_error(const np::Moment& moment) {
    if (!std::isfinite(moment.standard_error)) return rate(moment.value);
    return rate(moment.value) + " +- " + np::detail::number(moment.standard_error);
}

void write_first_step(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    paragraph(stream, "The first step of " + options.optimizer_name() +
                          ": eta_half is the learning rate at which it takes away half of the differences between "
                          "tokens; the response is how far an entry of the last hidden state moves, per unit of "
                          "learning rate.");
    const std::size_t width = shared::name_width(results);
    stream << '\n'
           << left("", width) << right("eta_half", 12) << right("", 22) << right("response", 12) << '\n'
           << left("", width) << right("predicted", 12) << right("measured", 22) << right("predicted", 12)
           << right("measured", 22) << right("recovers", 12) << '\n';
    for (const PlacementResult& result : results) {
        const auto& measured = result.measured;
        stream << left("  " + result.predicted.placement, width) << right(rate(result.predicted.eta_half.value), 12)
               << right(measured ? with_error(measured->eta_half) : "-", 22)
               << right(rate(result.predicted.response.value), 12)
               << right(measured ? with_error(measured->response) : "-", 22)
               << right(!result.has_theory()     ? "-"
                        : result.advice.recovers ? "yes"
                                                 : "no",
                        12)
               << '\n';
    }
}

void write_advice(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    stream << "\nAdvice"
           << (std::isfinite(options.learning_rate) ? " for a learning rate of " + rate(options.learning_rate) : "")
           << '\n';
    for (const PlacementResult& result : results) {
        paragraph(stream, "* " + result.predicted.placement + ": " + result.advice.sentence + ".", 2);
        for (const std::string& caveat : result.advice.caveats) {
            stream << "  - ";
            paragraph(stream, caveat + ".", 4, 4);
        }
    }
}

std::string outcome_text(const Outcome& outcome) {
    if (!std::isfinite(outcome.loss)) return "diverged";
    return formatted("%.2f ", outcome.loss) + right(outcome.learned ? "learned" : "failed", 7);
}

/// Where a placement first failed, against the prediction.
std::string ladder_sentence(const Ladder& ladder) {
    const double learned = ladder.largest_learned(), failed = ladder.first_failed();
    std::string sentence;
    if (std::isnan(learned))
        sentence = "nothing was learned without warm-up, at no learning rate; the smallest ones may need more steps";
    else if (std::isnan(failed)) sentence = "learned without warm-up up to " + rate(learned) + ", the largest one";
    else
        sentence = "without warm-up the largest that learned is " + rate(learned) + ", and " + rate(failed) + " failed";
    if (!std::isfinite(ladder.predicted)) return sentence + ", where no number was predicted.";
    sentence += "; predicted " + rate(ladder.predicted);
    if (std::isfinite(learned) && std::isfinite(failed)) {
        const double middle = std::sqrt(learned * failed);
        sentence += ", which is " + formatted("%.2f", ladder.predicted / middle) + " times the middle of the two";
    }
    std::size_t tried = 0, rescued = 0;
    for (const Rung& rung : ladder.rungs)
        if (rung.with && !rung.without.learned) {
            ++tried;
            rescued += rung.with->learned ? 1 : 0;
        }
    sentence += ".";
    if (tried > 0)
        sentence += " With the advised warm-up " + std::to_string(rescued) + " of the " + std::to_string(tried) +
                    " that failed learned.";
    return sentence;
}

void write_ladders(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    stream << '\n';
    paragraph(stream, "Trained for " + std::to_string(options.steps) +
                          " steps with one seed. The loss is the last tenth's mean in nats per byte; it has failed "
                          "unless it gains 0.1 on the text's unigram entropy, " +
                          formatted("%.2f", results.front().ladder->unigram_entropy) + ".");
    const std::size_t width = shared::name_width(results);
    stream << '\n'
           << left("", width) << right("learning rate", 14) << right("over predicted", 17)
           << right("without warm-up", 20) << right("with the advised steps", 29) << '\n';
    for (const PlacementResult& result : results) {
        const Ladder& ladder = *result.ladder;
        bool first = true;
        for (const Rung& rung : ladder.rungs) {
            std::string with = "-";
            if (rung.warm_up_steps > 0.0) {
                with = formatted("%.0f steps: ", std::ceil(rung.warm_up_steps));
                with += rung.with ? outcome_text(*rung.with) : "too many";
            }
            stream << left(first ? "  " + result.predicted.placement : "", width) << right(rate(rung.learning_rate), 14)
                   << right(np::detail::number(rung.learning_rate / ladder.predicted), 17)
                   << right(outcome_text(rung.without), 20) << right(with, 29) << '\n';
            first = false;
        }
    }
    for (const PlacementResult& result : results)
        if (!result.ladder->rungs.empty())
            paragraph(stream, "* " + result.predicted.placement + ": " + ladder_sentence(*result.ladder), 2);
}

}  // namespace

void write_tables(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    stream << options.description() << '\n';
    if (options.seeds > 0 || options.steps > 0) {
        const np::BlasDescription blas = np::blas_description();
        stream << "measured on " << blas.library << (blas.kernels.empty() ? "" : ", " + blas.kernels + " kernels")
               << '\n';
        if (!blas.advice.empty()) stream << blas.advice << '\n';
    }
    stream << '\n';
    write_first_step(stream, options, results);
    write_advice(stream, options, results);
    if (options.steps > 0) write_ladders(stream, options, results);
}

}  // namespace warmup
