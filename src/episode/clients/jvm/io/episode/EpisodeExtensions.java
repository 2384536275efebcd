package io.episode;

import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Statements with episode's clauses in every client of Spark's JVM: set spark.sql.extensions to
 * io.episode.EpisodeExtensions, and put this jar on the class path.
 */
public final class EpisodeExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(EpisodeParser::around);
    return BoxedUnit.UNIT;
  }
}
